//! The NVIDIA backend of llaisys-runtime: a plugin over the CUDA driver.
//!
//! It opens on every machine. No toolkit is needed to build it and no driver to load it: the
//! driver's entry points are hidden doors of this file (`doors`), and what stands behind them is
//! opened at the first call that needs it (`driver`). The file exports one symbol,
//! `llaisysBackendQuery`.
//!
//! | question | file |
//! |---|---|
//! | what does an operation do? | `backend`, and from there: |
//! | … on streams and events? | `streams`, `client_events` |
//! | … on memory? | `pool`, `unpooled`, `managed_memory`, `pinned` with `mapping`, `registered` |
//! | … with copies and fills? | `copies`, `rows`, `batches`, `fills` |
//! | … between devices? | `peers`, `nvml` |
//! | how is the driver found, and why is there none? | `candidates`, `library`, `search`, `driver` |
//! | how many devices are there, without starting the driver? | `probe` |
//! | how does a call reach the driver? | `call`, `doors`, `symbols`; for what is newer than CUDA 11.4, `newer` |
//! | which context is current, and when is one made? | `context` |
//! | what is a device? | `device`, `cudart` |
//! | what does a device still have to do? | `marks` |
//! | whose memory is this? | `addresses` |
//! | what does the driver's code mean? | `errors` |
//! | what happens after a `fork`? | `fork` |
//! | what of copies that the driver does otherwise, or not? | `host_copy`, `staging`, `two_devices` |

mod addresses;
mod backend;
mod batches;
mod call;
mod candidates;
mod capture;
mod client_events;
mod context;
mod copies;
mod cudart;
mod device;
mod doors;
mod driver;
mod errors;
mod event;
mod fills;
mod fork;
mod host_copy;
mod library;
mod managed_memory;
mod mapping;
mod marks;
mod newer;
mod nvml;
mod peers;
mod pinned;
mod pool;
mod probe;
mod registered;
mod rows;
mod search;
mod staging;
mod streams;
mod symbols;
mod two_devices;
mod unpooled;

use backend::Nvidia;

llaisys_runtime_core::export_backend! {
    backend: Nvidia = Nvidia,
    device_type: Nvidia::DEVICE_TYPE,
    name: c"nvidia",
    vendor: c"NVIDIA",
    capabilities: Nvidia::CAPABILITIES,
}
