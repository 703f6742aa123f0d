//! What comes from C and what goes there: checked before anything is formed from it, and written only
//! on success.

use crate::api::*;
use crate::error::{Error, Result};
use crate::status::Status;
use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_void};

/// Checks an out-parameter before the operation is done, so that a failed call changes nothing.
#[inline]
pub(super) fn output<T>(pointer: *mut T, name: &str) -> Result<*mut T> {
    if pointer.is_null() { Err(null_argument(name)) } else { Ok(pointer) }
}

#[cold]
pub(super) fn null_argument(name: &str) -> Error {
    Error::new(Status::InvalidValue, format!("`{name}` is NULL"))
}

pub(super) fn bytes(size: u64) -> Result<usize> {
    usize::try_from(size)
        .map_err(|_| Error::new(Status::InvalidValue, format!("{size} bytes is more than memory")))
}

#[inline]
pub(super) fn known(flags: CopyFlags) -> Result<CopyFlags> {
    let unknown = flags.without(CopyFlags::KNOWN);
    if unknown == CopyFlags::NONE {
        Ok(flags)
    } else {
        Err(Error::new(
            Status::InvalidValue,
            format!("copy flags {:#x} have no meaning", unknown.0),
        ))
    }
}

pub(super) fn known_stream(flags: StreamFlags) -> Result<StreamFlags> {
    let unknown = flags.0 & !StreamFlags::KNOWN.0;
    if unknown == 0 {
        Ok(flags)
    } else {
        Err(Error::new(Status::InvalidValue, format!("stream flags {unknown:#x} have no meaning")))
    }
}

pub(super) fn known_event(flags: EventFlags) -> Result<EventFlags> {
    let unknown = flags.0 & !EventFlags::KNOWN.0;
    if unknown == 0 {
        Ok(flags)
    } else {
        Err(Error::new(Status::InvalidValue, format!("event flags {unknown:#x} have no meaning")))
    }
}

/// The pattern of a fill.
///
/// # Safety
/// - `from` is NULL or has `size` readable bytes.
#[inline(always)]
pub(super) unsafe fn read_pattern(from: *const c_void, size: u32) -> Result<Pattern> {
    if size == 1 && !from.is_null() {
        // The commonest pattern by a short way: it stays in registers.
        // SAFETY: not NULL, and a byte is readable.
        return Ok(Pattern::of_byte(unsafe { from.cast::<u8>().read() }));
    }
    // SAFETY: by the contract above.
    unsafe { read_longer_pattern(from, size) }
}

/// # Safety
/// - As for `read_pattern`.
#[cold]
unsafe fn read_longer_pattern(from: *const c_void, size: u32) -> Result<Pattern> {
    if from.is_null() {
        return Err(null_argument("pattern"));
    }
    if size > 16 {
        let message = format!("a pattern has 1, 2, 4, 8 or 16 bytes, not {size}");
        return Err(Error::new(Status::InvalidValue, message));
    }
    // SAFETY: not NULL, and `size` bytes are readable.
    Pattern::new(unsafe { std::slice::from_raw_parts(from.cast::<u8>(), size as usize) })
}

/// The name of an operation.
///
/// # Safety
/// - `from` is NULL or a NUL-terminated text.
pub(super) unsafe fn read_name<'a>(from: *const c_char) -> Result<&'a str> {
    if from.is_null() {
        return Err(null_argument("operation"));
    }
    // SAFETY: by the contract above.
    unsafe { CStr::from_ptr(from) }
        .to_str()
        .map_err(|_| Error::new(Status::InvalidValue, "the operation's name is not UTF-8"))
}

/// A pitched copy from a caller whose struct may be longer than ours, if what we do not know is zero.
///
/// # Safety
/// - `from` is NULL or points to a struct of its own `struct_size`.
pub(super) unsafe fn read_copy_3d(from: *const LlaisysCopy3D) -> Result<LlaisysCopy3D> {
    if from.is_null() {
        return Err(null_argument("copy"));
    }
    // SAFETY: not NULL, and the struct begins with its size.
    let size = unsafe { from.cast::<u32>().read_unaligned() } as usize;
    if size < size_of::<LlaisysCopy3D>() {
        let message = format!("LlaisysCopy3D.struct_size is {size}; set it before the call");
        return Err(Error::new(Status::InvalidValue, message));
    }
    let ours = size_of::<LlaisysCopy3D>();
    // SAFETY: the caller's struct has `size` bytes.
    let tail = unsafe { std::slice::from_raw_parts(from.cast::<u8>().add(ours), size - ours) };
    if tail.iter().any(|byte| *byte != 0) {
        let message = "LlaisysCopy3D has fields that this runtime does not know".to_owned();
        return Err(Error::new(Status::AbiMismatch, message));
    }
    // SAFETY: the caller's struct has all of our fields.
    Ok(unsafe { from.read_unaligned() })
}

/// The ranges of a batched copy.
///
/// # Safety
/// - `from` is NULL or points to `count` ranges, `stride` bytes apart.
pub(super) unsafe fn read_ranges<'a>(
    from: *const LlaisysCopyRange,
    count: u64,
    stride: u64,
) -> Result<Cow<'a, [LlaisysCopyRange]>> {
    if count == 0 {
        return Ok(Cow::Borrowed(&[]));
    }
    if from.is_null() {
        return Err(null_argument("ranges"));
    }
    if stride < size_of::<LlaisysCopyRange>() as u64 {
        let message = format!("a stride of {stride} bytes is less than one LlaisysCopyRange");
        return Err(Error::new(Status::InvalidValue, message));
    }
    let span = bytes(count.saturating_mul(stride))?;
    if span > isize::MAX as usize {
        return Err(Error::new(
            Status::InvalidValue,
            format!("{count} ranges are more than memory"),
        ));
    }
    if stride == size_of::<LlaisysCopyRange>() as u64 && from.is_aligned() {
        // SAFETY: not NULL, aligned, and the caller gives `count` ranges without gaps.
        return Ok(Cow::Borrowed(unsafe { std::slice::from_raw_parts(from, count as usize) }));
    }
    let at = |index: u64| {
        // SAFETY: `index < count`, and the caller gives that many ranges, `stride` bytes apart.
        unsafe { from.byte_add((index * stride) as usize).read_unaligned() }
    };
    Ok(Cow::Owned((0..count).map(at).collect()))
}

/// An output struct whose first field is its size as the caller knows it.
pub(super) trait Sized32: Copy {
    /// What the struct is called in messages.
    const NAME: &'static str;
}
impl Sized32 for LlaisysDeviceProperties {
    const NAME: &'static str = "LlaisysDeviceProperties";
}
impl Sized32 for LlaisysPeerLink {
    const NAME: &'static str = "LlaisysPeerLink";
}
impl Sized32 for LlaisysPointerAttributes {
    const NAME: &'static str = "LlaisysPointerAttributes";
}
impl Sized32 for LlaisysMemoryStatistics {
    const NAME: &'static str = "LlaisysMemoryStatistics";
}
impl Sized32 for LlaisysMemoryInfo {
    const NAME: &'static str = "LlaisysMemoryInfo";
}

/// How much of the caller's struct may be written.
///
/// # Safety
/// - `to` is NULL or points to at least four readable bytes.
pub(super) unsafe fn writable_size<T: Sized32>(to: *mut T) -> Result<usize> {
    let to = output(to, T::NAME)?;
    // SAFETY: not NULL, and the caller's struct begins with its size.
    let size = unsafe { to.cast::<u32>().read_unaligned() } as usize;
    if size < size_of::<u32>() {
        let message = format!("{}.struct_size is {size}; set it before the call", T::NAME);
        return Err(Error::new(Status::InvalidValue, message));
    }
    Ok(size.min(size_of::<T>()))
}

/// Writes `value` without its size field, as far as the caller's struct goes.
///
/// # Safety
/// - `size` came from `writable_size(to)`.
pub(super) unsafe fn write_struct<T: Sized32>(to: *mut T, size: usize, value: &T) {
    let skip = size_of::<u32>();
    let from: *const T = value;
    // SAFETY: both structs have at least `size` bytes, and `size >= skip`.
    unsafe {
        from.cast::<u8>().add(skip).copy_to_nonoverlapping(to.cast::<u8>().add(skip), size - skip);
    }
}

/// Copies a text into C's buffer, cut to its capacity.
///
/// # Safety
/// - `to` is NULL or has `capacity` writable bytes.
pub unsafe fn copy_text(text: &CStr, to: *mut c_char, capacity: u64) {
    if to.is_null() || capacity == 0 {
        return;
    }
    let length = text.count_bytes().min(usize::try_from(capacity - 1).unwrap_or(usize::MAX));
    // SAFETY: `length + 1 <= capacity` bytes are writable by the contract above.
    unsafe {
        text.as_ptr().copy_to_nonoverlapping(to, length);
        to.add(length).write(0);
    }
}
