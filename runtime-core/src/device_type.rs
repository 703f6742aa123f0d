//! The kinds of device and their numbers.
//!
//! Rule: numbers are frozen. CPU and NVIDIA are LLAISYS's own; the others that have a name here are
//! InfiniCore's and are reserved for those vendors. A plugin of another kind names itself and is
//! given a number from [`ASSIGNED`] when it is loaded.

use std::ffi::CStr;
use std::ops::RangeInclusive;

/// The kind of a device, as LLAISYS's `llaisysDeviceType_t` numbers it.
pub type DeviceType = i32;

/// The CPU.
pub const CPU: DeviceType = 0;
/// NVIDIA GPUs.
pub const NVIDIA: DeviceType = 1;
/// Reserved for Cambricon.
pub const CAMBRICON: DeviceType = 2;
/// Reserved for Huawei Ascend.
pub const ASCEND: DeviceType = 3;
/// Reserved for MetaX.
pub const METAX: DeviceType = 4;
/// Reserved for Moore Threads.
pub const MOORE: DeviceType = 5;
/// Reserved for Iluvatar CoreX.
pub const ILUVATAR: DeviceType = 6;
/// Reserved for Kunlunxin.
pub const KUNLUN: DeviceType = 7;
/// Reserved for Hygon.
pub const HYGON: DeviceType = 8;
/// Reserved for QY.
pub const QY: DeviceType = 9;
/// Reserved for Alibaba.
pub const ALI: DeviceType = 10;

/// The numbers that plugins of other kinds are given at load, in the order in which they come.
pub const ASSIGNED: RangeInclusive<DeviceType> = 32..=47;

/// One more than the largest number: the size of a table that is indexed by device type.
pub const LIMIT: usize = 48;

const NAMES: [&CStr; 11] = [
    c"cpu",
    c"nvidia",
    c"cambricon",
    c"ascend",
    c"metax",
    c"moore",
    c"iluvatar",
    c"kunlun",
    c"hygon",
    c"qy",
    c"ali",
];

/// The name of a number that has one by itself; the names of assigned numbers are the registry's.
pub fn name(device_type: DeviceType) -> Option<&'static CStr> {
    NAMES.get(usize::try_from(device_type).ok()?).copied()
}

/// Whether a backend may serve this number by its own choice.
pub fn is_reserved(device_type: DeviceType) -> bool {
    (CPU..=ALI).contains(&device_type)
}
