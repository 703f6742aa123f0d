//! How device memory is allocated: by this allocator, or straight by the backend.

use crate::api::Capabilities;

/// The variable that chooses.
const VARIABLE: &str = "LLAISYS_ALLOCATOR";

/// Whether the devices of a backend with these capabilities have pools.
///
/// Without the variable they do where device memory is the host's: there all work comes through this
/// runtime. Elsewhere users launch work of their own, also while they capture a stream, whose end may
/// not be asked for meanwhile, and the backends keep pools of their own.
pub fn is_pooled(capabilities: Capabilities) -> bool {
    // What the allocator must be able to ask a backend.
    let needed = Capabilities::STREAM_QUERY.with(Capabilities::EVENTS);
    let wanted = match std::env::var(VARIABLE).as_deref() {
        Ok("pooled") => true,
        Ok("plain") => false,
        _ => capabilities.contains(Capabilities::DEVICE_MEMORY_IS_HOST_MEMORY),
    };
    wanted && capabilities.contains(needed)
}
