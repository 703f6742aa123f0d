//! What is claimed is there, and what is not claimed is not.

use crate::rig::Rig;
use llaisys_backend_cpu::Cpu;
use llaisys_runtime_core::api::*;
use llaisys_runtime_core::entries::ENTRIES;
use llaisys_runtime_core::managed::Managed;
use llaisys_runtime_core::{Status, device_type};

/// The operations that have no meaning on a CPU. Each says why where it is refused.
const WITHOUT_MEANING: [&str; 1] = ["adopt_stream"];

#[test]
fn every_operation_of_the_table_is_native_but_those_without_meaning() {
    let managed = Managed::install(Cpu::new(), device_type::CPU);
    for entry in ENTRIES {
        let expected = match WITHOUT_MEANING.contains(&entry.name) {
            true => Support::Unsupported,
            false => Support::Native,
        };
        let support = managed.get_operation_support(entry.name).expect("a name of the table");
        assert_eq!(support, expected, "{}", entry.name);
    }
}

#[test]
fn every_capability_that_is_claimed_is_there_when_it_is_called() {
    let rig = Rig::with_devices(1);
    let (api, null) = (rig.0, std::ptr::null_mut());
    let (stream, event) = (rig.stream(), rig.event(EventFlags::TIMING));
    let pattern = Pattern::new(&[1]).expect("a pattern");
    let nothing = LlaisysCopy3D {
        struct_size: size_of::<LlaisysCopy3D>() as u32,
        kind: 0,
        dst: null,
        dst_pitch: 0,
        dst_slice_height: 0,
        src: null,
        src_pitch: 0,
        src_slice_height: 0,
        width: 0,
        height: 0,
        depth: 0,
    };
    let (none, kind) = (CopyFlags::NONE, MemcpyKind::H2H);
    // SAFETY: the handles are live; nothing is copied or filled, and pointers to free are looked up.
    let called = unsafe {
        [
            (Capabilities::DEVICE_INFORMATION, api.get_device_properties(0).map(drop)),
            (Capabilities::DEVICE_INFORMATION, api.get_memory_info(0).map(drop)),
            (Capabilities::STREAM_QUERY, api.stream_query(0, stream).map(drop)),
            (Capabilities::HOST_FUNCTIONS, rig.try_call(0, stream, || ())),
            (Capabilities::POINTER_QUERY, api.is_device_memory(0, 8).map(drop)),
            (Capabilities::POINTER_QUERY, api.get_pointer_attributes(8).map(drop)),
            (Capabilities::STREAM_OPTIONS, api.get_stream_priority_range(0).map(drop)),
            (
                Capabilities::STREAM_OPTIONS,
                api.create_stream_with(0, StreamFlags::BLOCKING, 0).map(drop),
            ),
            (Capabilities::FOREIGN_STREAMS, api.adopt_stream(null).map(drop)),
            (Capabilities::EVENTS, api.create_event(0, EventFlags::NONE).map(drop)),
            (Capabilities::EVENTS, api.record_event(0, event, stream)),
            (Capabilities::EVENTS, api.stream_wait_event(0, stream, event)),
            (Capabilities::EVENTS, api.event_query(0, event).map(drop)),
            (Capabilities::EVENTS, api.event_synchronize(0, event)),
            (Capabilities::EVENTS, api.event_elapsed(0, event, event).map(drop)),
            (Capabilities::EVENTS, api.destroy_event(0, event)),
            (Capabilities::STREAM_ORDERED_MEMORY, api.malloc_async(0, 0, stream).map(drop)),
            (Capabilities::STREAM_ORDERED_MEMORY, api.free_async(0, null, stream)),
            (Capabilities::MANAGED_MEMORY, api.malloc_managed(0, 0).map(drop)),
            (Capabilities::MANAGED_MEMORY, api.free_managed(0, null)),
            (Capabilities::MANAGED_MEMORY, api.prefetch_managed(0, null, 0, 0, stream)),
            (
                Capabilities::MANAGED_MEMORY,
                api.advise_managed(0, null, 0, MemoryAdvice::SetReadMostly, 0),
            ),
            (Capabilities::HOST_REGISTRATION, api.register_host(0, null, 0)),
            (Capabilities::HOST_REGISTRATION, api.unregister_host(0, null)),
            (Capabilities::FILL, api.memset_async(0, null, pattern, 0, stream)),
            (Capabilities::PITCHED_COPIES, api.memcpy_3d_async(0, &nothing, stream, none)),
            (Capabilities::BATCHED_COPIES, api.memcpy_batch_async(0, &[], kind, stream, none)),
            (Capabilities::PEERS, api.get_peer_link(0, 0).map(drop)),
            (Capabilities::PEERS, api.enable_peer_access(0, 0)),
            (Capabilities::MEMORY_POOL, api.get_reserved_memory(0).map(drop)),
            (Capabilities::MEMORY_POOL, api.trim_memory(0, 0)),
        ]
    };
    for (capability, result) in called {
        let is_there = result.is_ok_or_another(Status::NotSupported);
        assert_eq!(rig.0.capabilities().contains(capability), is_there, "{}", capability.name());
    }
}

trait Answer {
    /// Whether the answer is anything but this status.
    fn is_ok_or_another(&self, status: Status) -> bool;
}

impl Answer for llaisys_runtime_core::Result<()> {
    fn is_ok_or_another(&self, status: Status) -> bool {
        !matches!(self, Err(error) if error.status() == status)
    }
}
