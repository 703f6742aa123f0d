//! The versioned table of a backend, as a client sees it: explicit devices, a status from each call.
//!
//! The methods are safe to call because of what the contract says of the arguments, not because of
//! their types: see `address`.

pub mod memory;
mod order;

use crate::address::Address;
use crate::code::Code;
use llaisys_runtime_core::abi::LlaisysBackendAPI;
use llaisys_runtime_core::api::{
    Capabilities, CopyFlags, HostFunction, LlaisysDeviceProperties, LlaisysMemoryInfo, MemcpyKind,
    Stream,
};
use std::ffi::c_void;
use std::ptr;

/// What a call answers: a value, or the status of its failure.
pub type Answer<T = ()> = Result<T, Code>;

/// A backend's table.
#[derive(Clone, Copy)]
pub struct Extended {
    /// The table itself, for calls that the methods below do not make (NULL outputs and the like).
    pub raw: &'static LlaisysBackendAPI,
}

/// One copy, so that the argument lists stay readable.
#[derive(Clone, Copy)]
pub struct Copy {
    /// Where to.
    pub dst: Address,
    /// Where from.
    pub src: Address,
    /// How many bytes.
    pub size: usize,
    /// The direction; any number.
    pub kind: u32,
    /// Flags.
    pub flags: CopyFlags,
}

impl Copy {
    /// A copy without flags.
    pub fn new(dst: Address, src: Address, size: usize, kind: MemcpyKind) -> Copy {
        Copy { dst, src, size, kind: kind as u32, flags: CopyFlags::NONE }
    }

    /// The same copy with flags.
    pub fn with(self, flags: CopyFlags) -> Copy {
        Copy { flags, ..self }
    }
}

impl Extended {
    /// Takes a table that the runtime handed out.
    ///
    /// # Errors
    /// That it is NULL, too short, or of another major version.
    ///
    /// # Safety
    /// - `table` is what `llaisysGetBackendAPI` returned.
    pub unsafe fn take(table: *const LlaisysBackendAPI) -> Result<Extended, String> {
        // SAFETY: NULL, or a table that stays for the life of the process.
        let Some(raw) = (unsafe { table.as_ref() }) else {
            return Err("llaisysGetBackendAPI returned NULL".to_owned());
        };
        if (raw.struct_size as usize) < size_of::<LlaisysBackendAPI>() {
            return Err(format!(
                "the table of the library has {} bytes, this suite was built for {}",
                raw.struct_size,
                size_of::<LlaisysBackendAPI>()
            ));
        }
        Ok(Extended { raw })
    }

    /// The table's `self`.
    pub fn this(&self) -> *mut c_void {
        self.raw.self_
    }

    /// The number of devices.
    pub fn get_device_count(&self) -> Answer<i32> {
        let mut count = -1;
        // SAFETY: the table's own `self`; `count` is ours.
        Code(unsafe { (self.raw.get_device_count)(self.this(), &mut count) }).result()?;
        Ok(count)
    }

    /// Binds the thread natively.
    pub fn set_device(&self, device: i32) -> Answer {
        // SAFETY: the table's own `self`.
        Code(unsafe { (self.raw.set_device)(self.this(), device) }).result()
    }

    /// Waits for a device.
    pub fn device_synchronize(&self, device: i32) -> Answer {
        // SAFETY: the table's own `self`.
        Code(unsafe { (self.raw.device_synchronize)(self.this(), device) }).result()
    }

    /// Makes a stream.
    pub fn create_stream(&self, device: i32) -> Answer<Stream> {
        let mut stream = Stream::DEFAULT;
        // SAFETY: the table's own `self`; `stream` is ours.
        Code(unsafe { (self.raw.create_stream)(self.this(), device, &mut stream) }).result()?;
        Ok(stream)
    }

    /// Destroys a stream.
    pub fn destroy_stream(&self, device: i32, stream: Stream) -> Answer {
        // SAFETY: the table's own `self`; a handle is looked up, never followed (contract S3).
        Code(unsafe { (self.raw.destroy_stream)(self.this(), device, stream) }).result()
    }

    /// Waits for a stream.
    pub fn stream_synchronize(&self, device: i32, stream: Stream) -> Answer {
        // SAFETY: as for `destroy_stream`.
        Code(unsafe { (self.raw.stream_synchronize)(self.this(), device, stream) }).result()
    }

    /// Allocates device memory.
    pub fn malloc_device(&self, device: i32, size: u64) -> Answer<Address> {
        let mut pointer = ptr::null_mut();
        // SAFETY: the table's own `self`; `pointer` is ours.
        Code(unsafe { (self.raw.malloc_device)(self.this(), device, size, &mut pointer) })
            .result()?;
        Ok(Address::from_pointer(pointer))
    }

    /// Frees device memory.
    pub fn free_device(&self, device: i32, pointer: Address) -> Answer {
        // SAFETY: the table's own `self`; an address to free is looked up, never followed (M5).
        Code(unsafe { (self.raw.free_device)(self.this(), device, pointer.pointer()) }).result()
    }

    /// Allocates pinned host memory.
    pub fn malloc_host(&self, device: i32, size: u64) -> Answer<Address> {
        let mut pointer = ptr::null_mut();
        // SAFETY: the table's own `self`; `pointer` is ours.
        Code(unsafe { (self.raw.malloc_host)(self.this(), device, size, &mut pointer) })
            .result()?;
        Ok(Address::from_pointer(pointer))
    }

    /// Frees pinned host memory.
    pub fn free_host(&self, device: i32, pointer: Address) -> Answer {
        // SAFETY: as for `free_device`.
        Code(unsafe { (self.raw.free_host)(self.this(), device, pointer.pointer()) }).result()
    }

    /// Copies and waits.
    pub fn memcpy_sync(&self, device: i32, copy: Copy) -> Answer {
        let Copy { dst, src, size, kind, flags } = copy;
        let (dst, src, size) = (dst.pointer(), src.pointer(), size as u64);
        // SAFETY: the table's own `self`; the ranges are memory that the case keeps alive, or such
        // as the contract says are refused or left alone (M1, M3, C1, C4).
        Code(unsafe { (self.raw.memcpy_sync)(self.this(), device, dst, src, size, kind, flags) })
            .result()
    }

    /// Enqueues a copy.
    pub fn memcpy_async(&self, device: i32, copy: Copy, stream: Stream) -> Answer {
        let Copy { dst, src, size, kind, flags } = copy;
        let (dst, src, size) = (dst.pointer(), src.pointer(), size as u64);
        // SAFETY: as for `memcpy_sync`; the case keeps host memory until the stream has passed, or
        // frees it, which the contract allows (M4).
        Code(unsafe {
            let call = self.raw.memcpy_async;
            call(self.this(), device, dst, src, size, kind, stream, flags)
        })
        .result()
    }

    /// What a device is.
    pub fn get_device_properties(&self, device: i32) -> Answer<LlaisysDeviceProperties> {
        let mut properties = LlaisysDeviceProperties::new();
        // SAFETY: the table's own `self`; the struct is ours and knows its size.
        let code =
            unsafe { (self.raw.get_device_properties)(self.this(), device, &mut properties) };
        Code(code).result()?;
        Ok(properties)
    }

    /// A device's memory now.
    pub fn get_memory_info(&self, device: i32) -> Answer<LlaisysMemoryInfo> {
        let mut info = LlaisysMemoryInfo::new(0, 0);
        // SAFETY: the table's own `self`; the struct is ours and knows its size.
        Code(unsafe { (self.raw.get_memory_info)(self.this(), device, &mut info) }).result()?;
        Ok(info)
    }

    /// Whether a stream has nothing pending.
    pub fn stream_query(&self, device: i32, stream: Stream) -> Answer<bool> {
        let mut ready = -1;
        // SAFETY: the table's own `self`; `ready` is ours; a handle is looked up, never followed.
        Code(unsafe { (self.raw.stream_query)(self.this(), device, stream, &mut ready) })
            .result()?;
        Ok(ready != 0)
    }

    /// Has a stream call a function.
    ///
    /// # Safety
    /// - `function` may be called with `data`, once, from another thread, and does not unwind.
    pub unsafe fn launch_host_function(
        &self,
        device: i32,
        stream: Stream,
        function: HostFunction,
        data: *mut c_void,
    ) -> Answer {
        // SAFETY: the table's own `self`; the rest by the contract above.
        Code(unsafe {
            let call = self.raw.launch_host_function;
            call(self.this(), device, stream, Some(function), data)
        })
        .result()
    }

    /// Whether an address is device memory of this kind.
    pub fn is_device_memory(&self, device: i32, address: Address) -> Answer<bool> {
        let mut answer = -1;
        let address = address.pointer().cast_const();
        // SAFETY: the table's own `self`; `answer` is ours; the address is compared only.
        Code(unsafe { (self.raw.is_device_memory)(self.this(), device, address, &mut answer) })
            .result()?;
        Ok(answer != 0)
    }

    /// Makes the driver ready; the number of devices.
    pub fn initialize(&self) -> Answer<i32> {
        let mut count = -1;
        // SAFETY: the table's own `self`; `count` is ours.
        Code(unsafe { (self.raw.initialize)(self.this(), &mut count) }).result()?;
        Ok(count)
    }

    /// What the backend is able to do.
    pub fn get_capabilities(&self) -> Answer<Capabilities> {
        let mut bits = 0;
        // SAFETY: the table's own `self`; `bits` is ours.
        Code(unsafe { (self.raw.get_capabilities)(self.this(), &mut bits) }).result()?;
        Ok(Capabilities(bits))
    }
}
