//! What a case needs in order to say anything, and the reason when it is not there. Each reason is
//! checked here, by code (house rule 19).

use crate::context::Context;
use crate::operations;
use crate::outcome::{Checked, Stop};
use llaisys_runtime_core::api::Capabilities;
use llaisys_runtime_core::{Status, device_type};
use std::process::{Command, Stdio};

/// Something that a case needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A second device.
    SecondDevice,
    /// Device memory that is not the host's.
    OwnMemory,
    /// Device memory that the host may read.
    HostMemory,
    /// The CPU's backend, beside another one under test.
    CpuBeside,
    /// `launch_host_function`: gates are made of it.
    Gates,
    /// `stream_query`.
    StreamQuery,
    /// `get_device_properties` and `get_memory_info`.
    DeviceInformation,
    /// Events.
    Events,
    /// Streams of other kinds.
    StreamOptions,
    /// Streams of other makers.
    ForeignStreams,
    /// Managed memory.
    ManagedMemory,
    /// Registered host memory.
    Registration,
    /// Links between devices.
    Peers,
    /// The backend is part of the library.
    BuiltIn,
    /// The backend is a plugin.
    Plugin,
    /// A C compiler and the header for plugins.
    Compiler,
    /// The rights of the superuser.
    Root,
    /// `LLAISYS_CONFORMANCE_FAKE_CUDA` names a driver that fails on demand.
    FakeDriver,
    /// The whole memory of its device: no other case runs beside it.
    WholeDevice,
    /// Time: left out of quick runs, which are for sanitizers.
    Time,
}

/// The variable that names the fake driver.
pub const FAKE_CUDA: &str = "LLAISYS_CONFORMANCE_FAKE_CUDA";

impl Need {
    /// Whether a backend may be without it: an optional group of operations, or what is not a backend's
    /// at all. The gates are no such need, though a backend may be without them: nothing can be said of
    /// order there.
    pub fn is_optional(self) -> bool {
        matches!(
            self,
            Need::StreamQuery
                | Need::DeviceInformation
                | Need::Events
                | Need::StreamOptions
                | Need::ForeignStreams
                | Need::ManagedMemory
                | Need::Registration
                | Need::Peers
                | Need::FakeDriver
        )
    }

    /// Whether it is there.
    ///
    /// # Errors
    /// A skip with its reason, `NOT_SUPPORTED` when the backend does not have an operation and says
    /// so, or a failure when it does not have it and does not say so.
    pub fn check(self, context: &Context) -> Checked {
        match self {
            Need::SecondDevice if context.t.get_device_count() < 2 => {
                Err(Stop::skip(format!("one device only (the count is {})", context.count)))
            }
            Need::OwnMemory if context.host_memory() => {
                Err(Stop::skip("device memory is host memory (capability bit 0 is set)"))
            }
            Need::HostMemory if !context.host_memory() => {
                Err(Stop::skip("device memory is not host memory (capability bit 0 is clear)"))
            }
            Need::CpuBeside => cpu_beside(context),
            Need::Gates => operation(context, Capabilities::HOST_FUNCTIONS, "launch_host_function"),
            Need::StreamQuery => operation(context, Capabilities::STREAM_QUERY, "stream_query"),
            Need::DeviceInformation => {
                operation(context, Capabilities::DEVICE_INFORMATION, "get_device_properties")
            }
            Need::Events => operation(context, Capabilities::EVENTS, "create_event"),
            Need::StreamOptions => {
                operation(context, Capabilities::STREAM_OPTIONS, "create_stream_with")
            }
            Need::ForeignStreams => {
                operation(context, Capabilities::FOREIGN_STREAMS, "adopt_stream")
            }
            Need::ManagedMemory => {
                operation(context, Capabilities::MANAGED_MEMORY, "malloc_managed")
            }
            Need::Registration => {
                operation(context, Capabilities::HOST_REGISTRATION, "register_host")
            }
            Need::Peers => operation(context, Capabilities::PEERS, "get_peer_link"),
            Need::BuiltIn if !context.is_built_in() => {
                Err(Stop::skip(format!("the backend is a plugin ({})", context.candidate.path)))
            }
            Need::Plugin if context.is_built_in() => {
                Err(Stop::skip("the backend is built in (its record has no path)"))
            }
            Need::Compiler => compiler(context),
            // SAFETY: reads this process's user.
            Need::Root if unsafe { libc::geteuid() } != 0 => {
                Err(Stop::skip("only the superuser can arrange this (the user is not 0)"))
            }
            Need::FakeDriver if std::env::var_os(FAKE_CUDA).is_none() => {
                Err(Stop::skip(format!("{FAKE_CUDA} is not set: no driver that fails on demand")))
            }
            Need::Time if context.setup.quick => Err(Stop::skip("left out of a quick run")),
            _ => Ok(()),
        }
    }
}

/// An operation that may be missing: then the capability says so and the entry answers so.
fn operation(context: &Context, bit: Capabilities, name: &str) -> Checked {
    if context.capabilities.contains(bit) {
        return Ok(());
    }
    let answer = operations::call(context, name)?;
    context.answered(
        answer,
        name,
        Status::NotSupported,
        "the capability says that it is missing",
    )?;
    Err(Stop::not_supported(format!("the backend has no {name}")))
}

fn cpu_beside(context: &Context) -> Checked {
    if context.device_type == device_type::CPU {
        return Err(Stop::skip("the backend under test is the CPU (device type 0)"));
    }
    match context.library.device_count(device_type::CPU) {
        Ok(0) => Err(Stop::skip("there is no CPU beside the backend (its count is 0)")),
        Ok(_) => Ok(()),
        Err(code) => fail!("the CPU beside the backend: expected a count, found {code:?}"),
    }
}

fn compiler(context: &Context) -> Checked {
    let header = context.setup.include.join("llaisys/backend.h");
    if !header.is_file() {
        return Err(Stop::skip(format!("{} is not there (see --include)", header.display())));
    }
    let runs = Command::new("cc")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if runs { Ok(()) } else { Err(Stop::skip("there is no C compiler called cc")) }
}
