//! What a device is, how much memory it has, how two devices are linked: the structs that answer.
//!
//! Rule: output structs begin with the caller's `struct_size` and are written no further; fields are
//! only ever appended.

use std::ffi::c_char;

/// The ordinal of a device of one backend: `0..get_device_count()`.
pub type Ordinal = i32;

/// A number of bytes that is not known.
pub const UNKNOWN_BYTES: u64 = u64::MAX;

/// What a device is. An output struct: the caller sets `struct_size`, and no more than that is
/// written. Texts end with a NUL; what is not known is 0 or empty.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LlaisysDeviceProperties {
    /// The size of the struct in bytes, set by the caller.
    pub struct_size: u32,
    /// Streaming multiprocessors of a GPU, usable logical processors of a CPU.
    pub processor_count: u32,
    /// Memory of the device in bytes; on a CPU what the process may use (physical memory or the
    /// control group's limit, whichever is less).
    pub total_memory: u64,
    /// The driver's version as 1000 × major + 10 × minor; 0 without a driver.
    pub driver_version: i32,
    /// The compute capability of a CUDA device, major; 0 elsewhere.
    pub compute_capability_major: i32,
    /// The compute capability of a CUDA device, minor; 0 elsewhere.
    pub compute_capability_minor: i32,
    /// The version of the vendor's runtime library in this process, as `driver_version`; 0 without one.
    pub runtime_version: i32,
    /// The vendor's identifier of this very device; all zero where there is none.
    pub uuid: [u8; 16],
    /// The name, for people.
    pub name: [c_char; 128],
    /// The vendor's name.
    pub vendor: [c_char; 32],
    /// The PCI address as `dddd:bb:dd.f`.
    pub pci_address: [c_char; 32],
    /// Size of the last-level cache (L2 of a GPU) in bytes.
    pub l2_cache_size: u64,
    /// The processors' top clock in kHz.
    pub clock_rate: u32,
    /// 1 when the device shares the host's memory physically.
    pub integrated: u32,
    /// What this very device has: bits of `LLAISYS_CAPABILITY_*`.
    pub capabilities: u64,
    /// What a CPU can compute with, for example `avx2 avx512f`; empty on a GPU.
    pub cpu_features: [c_char; 128],
}

impl LlaisysDeviceProperties {
    /// Nothing known yet, with `struct_size` set.
    pub const fn new() -> LlaisysDeviceProperties {
        LlaisysDeviceProperties {
            struct_size: size_of::<LlaisysDeviceProperties>() as u32,
            processor_count: 0,
            total_memory: 0,
            driver_version: 0,
            compute_capability_major: 0,
            compute_capability_minor: 0,
            runtime_version: 0,
            uuid: [0; 16],
            name: [0; 128],
            vendor: [0; 32],
            pci_address: [0; 32],
            l2_cache_size: 0,
            clock_rate: 0,
            integrated: 0,
            capabilities: 0,
            cpu_features: [0; 128],
        }
    }
}

impl Default for LlaisysDeviceProperties {
    fn default() -> Self {
        Self::new()
    }
}

/// Writes `text` into a fixed field of a C struct, cut at a character boundary, NUL-terminated.
pub fn write_text(field: &mut [c_char], text: &str) {
    let mut length = text.len().min(field.len().saturating_sub(1));
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    field.fill(0);
    for (to, from) in field.iter_mut().zip(&text.as_bytes()[..length]) {
        *to = *from as c_char;
    }
}

/// Reads a fixed field of a C struct up to its NUL.
pub fn read_text(field: &[c_char]) -> String {
    let bytes: Vec<u8> = field.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The memory of a device now. An output struct, as [`LlaisysDeviceProperties`] is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LlaisysMemoryInfo {
    /// The size of the struct in bytes, set by the caller.
    pub struct_size: u32,
    /// Zero.
    pub reserved: u32,
    /// Bytes that can still be allocated; `UINT64_MAX` where that cannot be told without making a
    /// context on a device that nobody uses.
    pub free: u64,
    /// Bytes of the device.
    pub total: u64,
}

impl LlaisysMemoryInfo {
    /// With `struct_size` set.
    pub const fn new(free: u64, total: u64) -> LlaisysMemoryInfo {
        let struct_size = size_of::<LlaisysMemoryInfo>() as u32;
        LlaisysMemoryInfo { struct_size, reserved: 0, free, total }
    }
}

/// How one device reaches the memory of another. An output struct.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LlaisysPeerLink {
    /// The size of the struct in bytes, set by the caller.
    pub struct_size: u32,
    /// 1 when the device can read and write the peer's memory directly.
    pub can_access: u32,
    /// 1 when that is switched on.
    pub enabled: u32,
    /// What a copy between the two takes: `LLAISYS_LINK_*`.
    pub kind: u32,
    /// The vendor's rank of the link, 0 is best; only to compare links of one machine.
    pub performance_rank: i32,
    /// 1 when atomic operations work over the link.
    pub native_atomics: u32,
}

impl LlaisysPeerLink {
    /// No direct path: copies go through the host.
    pub const fn staged() -> LlaisysPeerLink {
        LlaisysPeerLink {
            struct_size: size_of::<LlaisysPeerLink>() as u32,
            can_access: 0,
            enabled: 0,
            kind: LINK_THROUGH_HOST,
            performance_rank: 0,
            native_atomics: 0,
        }
    }
}

/// The two are one device.
pub const LINK_SAME_DEVICE: u32 = 0;
/// Copies are staged through host memory.
pub const LINK_THROUGH_HOST: u32 = 1;
/// Directly over PCIe.
pub const LINK_PCIE: u32 = 2;
/// Directly over NVLink (or what the vendor calls its own).
pub const LINK_NVLINK: u32 = 3;
/// Both are views of the same host memory.
pub const LINK_SHARED_MEMORY: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_is_cut_between_characters() {
        let mut field = [0x55 as c_char; 6];
        write_text(&mut field, "abcdé");
        assert_eq!(read_text(&field), "abcd");
        write_text(&mut field, "né");
        assert_eq!(read_text(&field), "né");
    }
}
