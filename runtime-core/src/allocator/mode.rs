//! How device memory is allocated: by this allocator, or straight by the backend.

use crate::api::Capabilities;

/// The variable that chooses.
const VARIABLE: &str = "LLAISYS_ALLOCATOR";

/// Whether the devices of a backend with these capabilities have pools.
///
/// Only where the variable asks for it, for now: the pools do not see a `memcpy_sync` that another thread
/// has not come back from (a block that is freed meanwhile may be handed out), and they would record events
/// on a stream that a user captures. The backends keep pools of their own.
pub fn is_pooled(capabilities: Capabilities) -> bool {
    // What the allocator must be able to ask a backend.
    let needed = Capabilities::STREAM_QUERY.with(Capabilities::EVENTS);
    let wanted = std::env::var(VARIABLE).is_ok_and(|value| value == "pooled");
    wanted && capabilities.contains(needed)
}
