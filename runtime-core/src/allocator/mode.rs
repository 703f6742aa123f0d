//! How device memory is allocated: by this allocator, or straight by the backend.

use crate::api::Capabilities;
use crate::device_type::{self, DeviceType};

/// The variable that chooses.
const VARIABLE: &str = "LLAISYS_ALLOCATOR";

/// Whether the devices of a backend with these capabilities have pools: unless the variable says `plain`, where
/// the backend can be asked what is pending.
///
/// A CPU whose memory the host cannot touch is in strict mode: it looks for uses of freed memory and for
/// writes beyond a block, so each block is to be its own.
pub fn is_pooled(device_type: DeviceType, capabilities: Capabilities) -> bool {
    let needed = Capabilities::STREAM_QUERY.with(Capabilities::EVENTS);
    let is_strict = device_type == device_type::CPU
        && !capabilities.contains(Capabilities::DEVICE_MEMORY_IS_HOST_MEMORY);
    let is_plain = std::env::var(VARIABLE).is_ok_and(|value| value == "plain");
    !is_plain && !is_strict && capabilities.contains(needed)
}
