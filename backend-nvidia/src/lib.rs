//! The NVIDIA backend of llaisys-runtime: a plugin over the CUDA driver.
//!
//! It opens on every machine. No toolkit is needed to build it and no driver to load it: the
//! driver's entry points are hidden doors of this file (`doors`), and what stands behind them is
//! opened at the first call that needs it (`driver`). The file exports one symbol,
//! `llaisysBackendQuery`.
//!
//! | question | file |
//! |---|---|
//! | what does an operation do? | `backend`, and from there `streams`, `copies`, `pool`, `unpooled`, `pinned` |
//! | how is the driver found, and why is there none? | `candidates`, `library`, `search`, `driver` |
//! | how many devices are there, without starting the driver? | `probe` |
//! | how does a call reach the driver? | `call`, `doors`, `symbols` |
//! | which context is current, and when is one made? | `context` |
//! | what is a device? | `device` |
//! | what does a device still have to do? | `marks` |
//! | whose memory is this? | `addresses` |
//! | what does the driver's code mean? | `errors` |
//! | what happens after a `fork`? | `fork` |
//! | what of copies that the driver does otherwise, or not? | `host_copy`, `staging`, `two_devices` |

mod addresses;
mod backend;
mod call;
mod candidates;
mod context;
mod copies;
mod device;
mod doors;
mod driver;
mod errors;
mod event;
mod fork;
mod host_copy;
mod library;
mod marks;
mod pinned;
mod pool;
mod probe;
mod search;
mod staging;
mod streams;
mod symbols;
mod two_devices;
mod unpooled;

use backend::Nvidia;

llaisys_runtime_core::export_backend! {
    backend: Nvidia = Nvidia,
    device_type: 1,
    name: c"nvidia",
    vendor: c"NVIDIA",
    capabilities: Nvidia::CAPABILITIES,
}
