//! Memory of other kinds, fills, pitched and batched copies, accounts and slots through the versioned
//! table.

use super::{Answer, Extended};
use crate::address::Address;
use crate::code::Code;
use llaisys_runtime_core::api::{
    CopyFlags, LlaisysCopy3D, LlaisysCopyRange, LlaisysMemoryStatistics, LlaisysPointerAttributes,
    OutOfMemoryCallback, SlotDestructor, Stream,
};
use std::ffi::c_void;
use std::ptr;

/// A batch's ranges and what is common to them.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    /// The ranges.
    pub ranges: &'a [LlaisysCopyRange],
    /// The direction; any number.
    pub kind: u32,
    /// Flags.
    pub flags: CopyFlags,
}

impl Extended {
    /// Allocates in the order of a stream.
    pub fn malloc_async(&self, device: i32, size: u64, stream: Stream) -> Answer<Address> {
        let mut pointer = ptr::null_mut();
        let call = self.raw.malloc_async;
        // SAFETY: the table's own `self`; `pointer` is ours.
        Code(unsafe { call(self.this(), device, size, stream, &mut pointer) }).result()?;
        Ok(Address::from_pointer(pointer))
    }

    /// Frees in the order of a stream.
    pub fn free_async(&self, device: i32, pointer: Address, stream: Stream) -> Answer {
        let pointer = pointer.pointer();
        // SAFETY: the table's own `self`; an address to free is looked up, never followed (M5).
        Code(unsafe { (self.raw.free_async)(self.this(), device, pointer, stream) }).result()
    }

    /// Allocates managed memory.
    pub fn malloc_managed(&self, device: i32, size: u64) -> Answer<Address> {
        let mut pointer = ptr::null_mut();
        // SAFETY: the table's own `self`; `pointer` is ours.
        Code(unsafe { (self.raw.malloc_managed)(self.this(), device, size, &mut pointer) })
            .result()?;
        Ok(Address::from_pointer(pointer))
    }

    /// Frees managed memory.
    pub fn free_managed(&self, pointer: Address) -> Answer {
        // SAFETY: as for `free_async`.
        Code(unsafe { (self.raw.free_managed)(self.this(), 0, pointer.pointer()) }).result()
    }

    /// Moves managed memory.
    pub fn prefetch_managed(&self, at: Address, size: u64, to: i32, stream: Stream) -> Answer {
        let call = self.raw.prefetch_managed;
        // SAFETY: the table's own `self`; a range that is no managed memory is refused.
        Code(unsafe { call(self.this(), 0, at.pointer(), size, to, stream) }).result()
    }

    /// Advises about managed memory.
    pub fn advise_managed(&self, at: Address, size: u64, advice: u32, location: i32) -> Answer {
        let call = self.raw.advise_managed;
        // SAFETY: as for `prefetch_managed`.
        Code(unsafe { call(self.this(), 0, at.pointer(), size, advice, location) }).result()
    }

    /// Pins the caller's memory.
    pub fn register_host(&self, device: i32, pointer: Address, size: u64) -> Answer {
        let call = self.raw.register_host;
        // SAFETY: the table's own `self`; the range is memory that the case keeps until it is
        // unregistered, or such as is refused.
        Code(unsafe { call(self.this(), device, pointer.pointer(), size) }).result()
    }

    /// Lets go of the caller's memory.
    pub fn unregister_host(&self, pointer: Address) -> Answer {
        // SAFETY: as for `free_async`.
        Code(unsafe { (self.raw.unregister_host)(self.this(), 0, pointer.pointer()) }).result()
    }

    /// What an address is.
    pub fn get_pointer_attributes(&self, address: Address) -> Answer<LlaisysPointerAttributes> {
        let mut attributes = LlaisysPointerAttributes::pageable();
        let (call, address) = (self.raw.get_pointer_attributes, address.pointer().cast_const());
        // SAFETY: the table's own `self`; the struct is ours; the address is compared only.
        Code(unsafe { call(self.this(), address, &mut attributes) }).result()?;
        Ok(attributes)
    }

    /// Enqueues a fill.
    pub fn memset_async(
        &self,
        device: i32,
        dst: Address,
        pattern: &[u8],
        size: u64,
        stream: Stream,
    ) -> Answer {
        let (call, length) = (self.raw.memset_async, pattern.len() as u32);
        let (dst, pattern) = (dst.pointer(), pattern.as_ptr().cast());
        // SAFETY: the table's own `self`; the pattern is readable; the range is memory that the case
        // keeps alive, or such as is refused.
        Code(unsafe { call(self.this(), device, dst, pattern, length, size, stream) }).result()
    }

    /// Fills and waits.
    pub fn memset_sync(&self, device: i32, dst: Address, pattern: &[u8], size: u64) -> Answer {
        let (call, length) = (self.raw.memset_sync, pattern.len() as u32);
        let (dst, pattern) = (dst.pointer(), pattern.as_ptr().cast());
        // SAFETY: as for `memset_async`.
        Code(unsafe { call(self.this(), device, dst, pattern, length, size) }).result()
    }

    /// Enqueues a pitched copy.
    pub fn memcpy_3d_async(&self, device: i32, copy: &LlaisysCopy3D, stream: Stream) -> Answer {
        let (call, none) = (self.raw.memcpy_3d_async, CopyFlags::NONE);
        // SAFETY: the table's own `self`; both sides are memory that the case keeps alive, or such as
        // is refused.
        Code(unsafe { call(self.this(), device, copy, stream, none) }).result()
    }

    /// Copies with pitches and waits.
    pub fn memcpy_3d_sync(&self, device: i32, copy: &LlaisysCopy3D) -> Answer {
        // SAFETY: as for `memcpy_3d_async`.
        Code(unsafe { (self.raw.memcpy_3d_sync)(self.this(), device, copy) }).result()
    }

    /// Enqueues many copies.
    pub fn memcpy_batch_async(&self, device: i32, batch: Batch<'_>, stream: Stream) -> Answer {
        let Batch { ranges, kind, flags } = batch;
        let (call, count) = (self.raw.memcpy_batch_async, ranges.len() as u64);
        let stride = size_of::<LlaisysCopyRange>() as u64;
        let ranges = ranges.as_ptr();
        // SAFETY: the table's own `self`; `count` ranges lie there; they are memory that the case keeps
        // alive, or such as is refused.
        Code(unsafe { call(self.this(), device, ranges, count, stride, kind, stream, flags) })
            .result()
    }

    /// The bytes held from the driver.
    pub fn get_reserved_memory(&self, device: i32) -> Answer<u64> {
        let mut reserved = u64::MAX;
        // SAFETY: the table's own `self`; `reserved` is ours.
        Code(unsafe { (self.raw.get_reserved_memory)(self.this(), device, &mut reserved) })
            .result()?;
        Ok(reserved)
    }

    /// Gives cached memory back.
    pub fn trim_memory(&self, device: i32, keep: u64) -> Answer {
        // SAFETY: the table's own `self`.
        Code(unsafe { (self.raw.trim_memory)(self.this(), device, keep) }).result()
    }

    /// Where the memory of a device went.
    pub fn get_memory_statistics(&self, device: i32) -> Answer<LlaisysMemoryStatistics> {
        let struct_size = size_of::<LlaisysMemoryStatistics>() as u32;
        let mut statistics = LlaisysMemoryStatistics { struct_size, ..Default::default() };
        // SAFETY: the table's own `self`; the struct is ours and knows its size.
        Code(unsafe { (self.raw.get_memory_statistics)(self.this(), device, &mut statistics) })
            .result()?;
        Ok(statistics)
    }

    /// Where the memory of a stream went.
    pub fn get_stream_memory_statistics(
        &self,
        device: i32,
        stream: Stream,
    ) -> Answer<LlaisysMemoryStatistics> {
        let struct_size = size_of::<LlaisysMemoryStatistics>() as u32;
        let mut statistics = LlaisysMemoryStatistics { struct_size, ..Default::default() };
        let call = self.raw.get_stream_memory_statistics;
        // SAFETY: as for `get_memory_statistics`.
        Code(unsafe { call(self.this(), device, stream, &mut statistics) }).result()?;
        Ok(statistics)
    }

    /// Begins the peak anew.
    pub fn reset_peak_memory(&self, device: i32) -> Answer {
        // SAFETY: the table's own `self`.
        Code(unsafe { (self.raw.reset_peak_memory)(self.this(), device) }).result()
    }

    /// Limits what may be used.
    pub fn set_memory_limit(&self, device: i32, limit: u64) -> Answer {
        // SAFETY: the table's own `self`.
        Code(unsafe { (self.raw.set_memory_limit)(self.this(), device, limit) }).result()
    }

    /// Has a function asked when memory runs out.
    ///
    /// # Safety
    /// - `callback` may be called with `data` from any thread until another one is set.
    pub unsafe fn set_out_of_memory_callback(
        &self,
        callback: Option<OutOfMemoryCallback>,
        data: *mut c_void,
    ) -> Answer {
        // SAFETY: the table's own `self`; the rest by the contract above.
        Code(unsafe { (self.raw.set_out_of_memory_callback)(self.this(), callback, data) }).result()
    }

    /// Keeps a value for this thread and a device.
    ///
    /// # Safety
    /// - `destructor` may be called with `value`, once, on this thread.
    pub unsafe fn set_thread_slot(
        &self,
        device: i32,
        key: u64,
        value: *mut c_void,
        destructor: Option<SlotDestructor>,
    ) -> Answer {
        let call = self.raw.set_thread_slot;
        // SAFETY: the table's own `self`; the rest by the contract above.
        Code(unsafe { call(self.this(), device, key, value, destructor) }).result()
    }

    /// The value of this thread and a device.
    pub fn get_thread_slot(&self, device: i32, key: u64) -> Answer<*mut c_void> {
        let mut value = ptr::dangling_mut();
        // SAFETY: the table's own `self`; `value` is ours.
        Code(unsafe { (self.raw.get_thread_slot)(self.this(), device, key, &mut value) })
            .result()?;
        Ok(value)
    }

    /// Keeps a value for a stream.
    ///
    /// # Safety
    /// - `destructor` may be called with `value`, once, on any thread.
    pub unsafe fn set_stream_slot(
        &self,
        stream: Stream,
        key: u64,
        value: *mut c_void,
        destructor: Option<SlotDestructor>,
    ) -> Answer {
        let call = self.raw.set_stream_slot;
        // SAFETY: the table's own `self`; the rest by the contract above.
        Code(unsafe { call(self.this(), stream, key, value, destructor) }).result()
    }

    /// The value of a stream.
    pub fn get_stream_slot(&self, stream: Stream, key: u64) -> Answer<*mut c_void> {
        let mut value = ptr::dangling_mut();
        // SAFETY: the table's own `self`; `value` is ours.
        Code(unsafe { (self.raw.get_stream_slot)(self.this(), stream, key, &mut value) })
            .result()?;
        Ok(value)
    }
}
