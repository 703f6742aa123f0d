//! Tables that are shorter, longer or not what they claim to be (contract P3).

use llaisys_runtime_core::abi::LlaisysBackendAPI;
use llaisys_runtime_core::api::{Capabilities, CopyFlags, MemcpyKind, Ordinal, Stream};
use llaisys_runtime_core::export::export;
use llaisys_runtime_core::import::Plugin;
use llaisys_runtime_core::{Error, Result, RuntimeApi, Status, last_error};
use std::ffi::c_void;
use std::mem::{MaybeUninit, offset_of};

/// One device; everything else fails with a message and a native code, or panics.
struct Grumpy;

static GRUMPY: Grumpy = Grumpy;

fn no<T>() -> Result<T> {
    Err(Error::new(Status::OutOfMemory, "12 bytes asked, 3 free").with_native(2, "NO_ROOM"))
}

impl RuntimeApi for Grumpy {
    fn get_device_count(&self) -> Result<i32> {
        Ok(1)
    }
    fn set_device(&self, device: Ordinal) -> Result<()> {
        panic!("device {device} makes me panic")
    }
    fn device_synchronize(&self, _: Ordinal) -> Result<()> {
        Ok(())
    }
    fn create_stream(&self, _: Ordinal) -> Result<Stream> {
        Ok(Stream::DEFAULT)
    }
    unsafe fn destroy_stream(&self, _: Ordinal, _: Stream) -> Result<()> {
        no()
    }
    unsafe fn stream_synchronize(&self, _: Ordinal, _: Stream) -> Result<()> {
        no()
    }
    fn malloc_device(&self, _: Ordinal, _: usize) -> Result<*mut c_void> {
        no()
    }
    unsafe fn free_device(&self, _: Ordinal, _: *mut c_void) -> Result<()> {
        no()
    }
    fn malloc_host(&self, _: Ordinal, _: usize) -> Result<*mut c_void> {
        no()
    }
    unsafe fn free_host(&self, _: Ordinal, _: *mut c_void) -> Result<()> {
        no()
    }
    unsafe fn memcpy_sync(
        &self,
        _: Ordinal,
        _: *mut c_void,
        _: *const c_void,
        _: usize,
        _: MemcpyKind,
        _: CopyFlags,
    ) -> Result<()> {
        no()
    }
    unsafe fn memcpy_async(
        &self,
        _: Ordinal,
        _: *mut c_void,
        _: *const c_void,
        _: usize,
        _: MemcpyKind,
        _: Stream,
        _: CopyFlags,
    ) -> Result<()> {
        no()
    }
    unsafe fn stream_query(&self, _: Ordinal, _: Stream) -> Result<bool> {
        Ok(true)
    }
}

/// `GRUMPY`'s table as a maker of `size` bytes would have made it, with the entry at `hole` NULL.
/// What lies past its end is poison.
fn foreign(size: usize, hole: Option<usize>) -> *const LlaisysBackendAPI {
    const ROOM: usize = 2 * size_of::<LlaisysBackendAPI>();
    #[repr(align(16))]
    struct Room(MaybeUninit<[u8; ROOM]>);
    let whole = export(&GRUMPY);
    let room: &mut Room = Box::leak(Box::new(Room(MaybeUninit::uninit())));
    let bytes: *mut u8 = room.0.as_mut_ptr().cast();
    // SAFETY: the room is larger than the table; a table is plain words.
    unsafe {
        bytes.write_bytes(0xEE, ROOM);
        let copied = size.min(size_of::<LlaisysBackendAPI>());
        (&raw const whole).cast::<u8>().copy_to_nonoverlapping(bytes, copied);
        bytes.cast::<u32>().write(size as u32);
        if let Some(hole) = hole {
            bytes.add(hole).cast::<usize>().write(0);
        }
    }
    bytes.cast()
}

fn import(size: usize, hole: Option<usize>, capabilities: Capabilities) -> Result<Plugin> {
    // SAFETY: `foreign` makes a table of `size` bytes with entries of the right types.
    unsafe { Plugin::import(foreign(size, hole), capabilities) }
}

const WHOLE: usize = size_of::<LlaisysBackendAPI>();

#[test]
fn a_longer_table_works_and_its_tail_is_ignored() {
    let plugin = import(WHOLE + 64, None, Capabilities::STREAM_QUERY).expect("imported");
    assert_eq!(plugin.get_device_count().expect("one"), 1);
    // SAFETY: the default stream exists.
    assert!(unsafe { plugin.stream_query(0, Stream::DEFAULT) }.expect("an answer"));
}

#[test]
fn entries_past_the_end_of_a_shorter_table_are_not_supported() {
    let size = offset_of!(LlaisysBackendAPI, get_memory_info);
    let plugin = import(size, None, Capabilities::NONE).expect("imported");
    assert_eq!(plugin.get_device_count().expect("one"), 1);
    // SAFETY: the default stream exists.
    let answer = unsafe { plugin.stream_query(0, Stream::DEFAULT) }.expect_err("not there");
    assert_eq!(answer.status(), Status::NotSupported);
    assert!(answer.message().contains("stream_query"), "{answer}");
    assert!(last_error::take().is_none(), "a missing entry left something in the caller's slot");
}

#[test]
fn a_missing_optional_entry_is_not_supported_and_a_missing_required_one_is_refused() {
    let query = offset_of!(LlaisysBackendAPI, stream_query);
    let plugin = import(WHOLE, Some(query), Capabilities::NONE).expect("imported");
    // SAFETY: the default stream exists.
    let answer = unsafe { plugin.stream_query(0, Stream::DEFAULT) }.expect_err("not there");
    assert_eq!(answer.status(), Status::NotSupported);

    let free = offset_of!(LlaisysBackendAPI, free_device);
    let refused = import(WHOLE, Some(free), Capabilities::NONE).err().expect("refused");
    assert_eq!(refused.status(), Status::AbiMismatch);
    assert!(
        refused.message().contains("free_device is NULL")
            || refused.message().contains("entry free_device"),
        "{refused}"
    );
}

#[test]
fn a_capability_whose_entry_is_missing_is_a_lie_and_refused() {
    let query = offset_of!(LlaisysBackendAPI, stream_query);
    let refused = import(WHOLE, Some(query), Capabilities::STREAM_QUERY).err().expect("refused");
    assert!(refused.message().contains("STREAM_QUERY"), "{refused}");
    let short = import(query, None, Capabilities::STREAM_QUERY).err().expect("refused");
    assert!(short.message().contains("STREAM_QUERY"), "{short}");
}

#[test]
fn a_table_too_short_for_the_twelve_is_refused() {
    for size in [0, 4, 24, offset_of!(LlaisysBackendAPI, memcpy_async)] {
        let refused = import(size, None, Capabilities::NONE).err().expect("refused");
        assert_eq!(refused.status(), Status::AbiMismatch, "{size}");
    }
}

#[test]
fn a_failure_brings_its_status_message_and_native_code_over_the_border() {
    let plugin = import(WHOLE, None, Capabilities::NONE).expect("imported");
    let error = plugin.malloc_device(0, 12).expect_err("it always fails");
    assert_eq!(error.status(), Status::OutOfMemory);
    assert_eq!(error.message(), "12 bytes asked, 3 free");
    let native = error.native().expect("a native code");
    assert_eq!((native.code, native.name.as_str()), (2, "NO_ROOM"));
}

#[test]
fn a_panic_behind_the_border_is_an_error_in_front_of_it() {
    let plugin = import(WHOLE, None, Capabilities::NONE).expect("imported");
    let error = plugin.set_device(7).expect_err("it panics");
    assert_eq!(error.status(), Status::Internal);
    assert!(error.message().contains("device 7 makes me panic"), "{error}");
}

#[test]
fn success_with_a_null_stream_is_a_broken_promise() {
    let plugin = import(WHOLE, None, Capabilities::NONE).expect("imported");
    assert_eq!(plugin.create_stream(0).expect_err("NULL").status(), Status::Internal);
}
