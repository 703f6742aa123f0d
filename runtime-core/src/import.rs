//! Table → trait: a loaded plugin as a Rust value.
//!
//! Rules (contract P3): the plugin's table is read, never written; at most what both sides know is
//! copied; what is missing or NULL answers `NOT_SUPPORTED`; nothing is called through a null pointer
//! or past the end. After a failure the plugin's own slot is read at once, so the texts are ours.

use crate::abi::LlaisysBackendAPI;
use crate::api::*;
use crate::entries::{ENTRIES, HEAD, LEAST, Role, WORD, index_of, offset_at};
use crate::error::{Error, Result};
use crate::export::export;
use crate::status::Status;
use std::ffi::{c_char, c_void};
use std::mem::offset_of;

/// The backend that has nothing: fills the gaps of a table that is shorter than ours.
struct Absent;

static ABSENT: Absent = Absent;

/// A whole table, every entry of which answers `NOT_SUPPORTED`.
static ABSENT_TABLE: LlaisysBackendAPI = export(&ABSENT);

impl RuntimeApi for Absent {
    fn get_device_count(&self) -> Result<i32> {
        Err(not_supported("get_device_count"))
    }
    fn set_device(&self, _: Ordinal) -> Result<()> {
        Err(not_supported("set_device"))
    }
    fn device_synchronize(&self, _: Ordinal) -> Result<()> {
        Err(not_supported("device_synchronize"))
    }
    fn create_stream(&self, _: Ordinal) -> Result<Stream> {
        Err(not_supported("create_stream"))
    }
    unsafe fn destroy_stream(&self, _: Ordinal, _: Stream) -> Result<()> {
        Err(not_supported("destroy_stream"))
    }
    unsafe fn stream_synchronize(&self, _: Ordinal, _: Stream) -> Result<()> {
        Err(not_supported("stream_synchronize"))
    }
    fn malloc_device(&self, _: Ordinal, _: usize) -> Result<*mut c_void> {
        Err(not_supported("malloc_device"))
    }
    unsafe fn free_device(&self, _: Ordinal, _: *mut c_void) -> Result<()> {
        Err(not_supported("free_device"))
    }
    fn malloc_host(&self, _: Ordinal, _: usize) -> Result<*mut c_void> {
        Err(not_supported("malloc_host"))
    }
    unsafe fn free_host(&self, _: Ordinal, _: *mut c_void) -> Result<()> {
        Err(not_supported("free_host"))
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
        Err(not_supported("memcpy_sync"))
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
        Err(not_supported("memcpy_async"))
    }
}

/// A table of somebody else's as a [`RuntimeApi`].
pub struct Plugin {
    table: LlaisysBackendAPI,
    capabilities: Capabilities,
    /// A bit for each entry, in the order of the table: the plugin does not have it.
    missing: u64,
}

const WHOLE: usize = size_of::<LlaisysBackendAPI>();

impl Plugin {
    /// Copies what both sides know of a foreign table.
    ///
    /// # Errors
    /// `ABI_MISMATCH` when the table is shorter than the twelve operations, when one of these is
    /// NULL, or when a capability is claimed whose entries are not there.
    ///
    /// # Safety
    /// - `foreign` points to a table of at least its own `struct_size` bytes that stays valid for
    ///   the rest of the process, with entries of the types of [`LlaisysBackendAPI`].
    pub unsafe fn import(
        foreign: *const LlaisysBackendAPI,
        capabilities: Capabilities,
    ) -> Result<Plugin> {
        // SAFETY: `struct_size` is the first field and inside any table.
        let size = unsafe { foreign.cast::<u32>().read_unaligned() } as usize;
        if size < LEAST {
            let message =
                format!("the table has {size} bytes; the twelve operations need at least {LEAST}");
            return Err(Error::new(Status::AbiMismatch, message));
        }
        let mut table = ABSENT_TABLE;
        let mut missing = 0;
        let size = size.min(WHOLE);
        // SAFETY: both tables have at least `HEAD` bytes, all of them plain integers and `self_`.
        unsafe {
            foreign.cast::<u8>().copy_to_nonoverlapping((&raw mut table).cast::<u8>(), HEAD);
        }
        for (index, entry) in ENTRIES.iter().enumerate() {
            let offset = offset_at(index);
            let word = if offset + WORD <= size {
                // SAFETY: the foreign table has `size` bytes.
                unsafe { foreign.cast::<u8>().add(offset).cast::<usize>().read_unaligned() }
            } else {
                0
            };
            if word != 0 {
                // SAFETY: inside our own table; a non-null word of the foreign table is a function
                // of the same type by the contract above.
                unsafe { (&raw mut table).cast::<u8>().add(offset).cast::<usize>().write(word) };
                continue;
            }
            missing |= 1u64 << index;
            if entry.role == Role::Required {
                let message = format!("entry {} of the table is NULL", entry.name);
                return Err(Error::new(Status::AbiMismatch, message));
            }
            if let Some(group) = entry.claimed_by().filter(|group| capabilities.contains(*group)) {
                let message = format!(
                    "capability {} is claimed, but {} is missing",
                    group.name(),
                    entry.name
                );
                return Err(Error::new(Status::AbiMismatch, message));
            }
        }
        Ok(Plugin { table, capabilities, missing })
    }

    #[inline]
    fn check(&self, status: i32) -> Result<()> {
        if status == 0 { Ok(()) } else { Err(self.failure(status)) }
    }

    /// Reads the plugin's slot; on failure only.
    #[cold]
    fn failure(&self, code: i32) -> Error {
        let mut native_code = 0i64;
        let mut native_name = [0 as c_char; 128];
        let mut message = [0 as c_char; 1024];
        // SAFETY: the entry is the plugin's own; the buffers have the capacities that are passed.
        let _ = unsafe {
            (self.table.get_last_error)(
                self.table.self_,
                &mut native_code,
                native_name.as_mut_ptr(),
                native_name.len() as u64,
                message.as_mut_ptr(),
                message.len() as u64,
            )
        };
        native_name[native_name.len() - 1] = 0;
        message[message.len() - 1] = 0;
        let native_name = crate::api::read_text(&native_name);
        let message = crate::api::read_text(&message);
        let error = match Status::from_code(code) {
            Some(Status::Success) | None => Error::new(
                Status::Internal,
                format!("the backend answered {code}, which is no status: {message}"),
            ),
            Some(status) if message.is_empty() => Error::new(status, status.text()),
            Some(status) => Error::new(status, message),
        };
        if native_code == 0 && native_name.is_empty() {
            error
        } else {
            error.with_native(native_code, native_name)
        }
    }

    /// Asked before an optional entry is called: a missing one is answered here, so that the entry
    /// that stands in its place leaves nothing in this library's slot.
    fn optional(&self, offset: usize) -> Result<()> {
        if self.missing >> index_of(offset) & 1 == 0 {
            Ok(())
        } else {
            Err(not_supported(ENTRIES[index_of(offset)].name))
        }
    }

    fn yes_or_no(answer: i32) -> Result<bool> {
        match answer {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Self::broken_promise("wrote neither 0 nor 1")),
        }
    }

    #[cold]
    fn broken_promise(what: &str) -> Error {
        Error::new(Status::Internal, format!("the backend answered success but {what}"))
    }
}

impl RuntimeApi for Plugin {
    fn get_device_count(&self) -> Result<i32> {
        let mut count = -1;
        // SAFETY: the table's own `self`; `count` is ours.
        self.check(unsafe { (self.table.get_device_count)(self.table.self_, &mut count) })?;
        if count < 0 { Err(Self::broken_promise("wrote no device count")) } else { Ok(count) }
    }

    fn set_device(&self, device: Ordinal) -> Result<()> {
        // SAFETY: the table's own `self`.
        self.check(unsafe { (self.table.set_device)(self.table.self_, device) })
    }

    fn device_synchronize(&self, device: Ordinal) -> Result<()> {
        // SAFETY: the table's own `self`.
        self.check(unsafe { (self.table.device_synchronize)(self.table.self_, device) })
    }

    fn create_stream(&self, device: Ordinal) -> Result<Stream> {
        let mut stream = Stream::DEFAULT;
        // SAFETY: the table's own `self`; `stream` is ours.
        self.check(unsafe { (self.table.create_stream)(self.table.self_, device, &mut stream) })?;
        if stream.is_default() {
            Err(Self::broken_promise("the stream is NULL"))
        } else {
            Ok(stream)
        }
    }

    unsafe fn destroy_stream(&self, device: Ordinal, stream: Stream) -> Result<()> {
        // SAFETY: the table's own `self`; the caller keeps `destroy_stream`'s contract.
        self.check(unsafe { (self.table.destroy_stream)(self.table.self_, device, stream) })
    }

    unsafe fn stream_synchronize(&self, device: Ordinal, stream: Stream) -> Result<()> {
        // SAFETY: the table's own `self`; the caller keeps `stream_synchronize`'s contract.
        self.check(unsafe { (self.table.stream_synchronize)(self.table.self_, device, stream) })
    }

    fn malloc_device(&self, device: Ordinal, size: usize) -> Result<*mut c_void> {
        let mut pointer = std::ptr::null_mut();
        // SAFETY: the table's own `self`; `pointer` is ours.
        self.check(unsafe {
            (self.table.malloc_device)(self.table.self_, device, size as u64, &mut pointer)
        })?;
        if pointer.is_null() {
            Err(Self::broken_promise("the pointer is NULL"))
        } else {
            Ok(pointer)
        }
    }

    unsafe fn free_device(&self, device: Ordinal, pointer: *mut c_void) -> Result<()> {
        // SAFETY: the table's own `self`; the caller keeps `free_device`'s contract.
        self.check(unsafe { (self.table.free_device)(self.table.self_, device, pointer) })
    }

    fn malloc_host(&self, device: Ordinal, size: usize) -> Result<*mut c_void> {
        let mut pointer = std::ptr::null_mut();
        // SAFETY: the table's own `self`; `pointer` is ours.
        self.check(unsafe {
            (self.table.malloc_host)(self.table.self_, device, size as u64, &mut pointer)
        })?;
        if pointer.is_null() {
            Err(Self::broken_promise("the pointer is NULL"))
        } else {
            Ok(pointer)
        }
    }

    unsafe fn free_host(&self, device: Ordinal, pointer: *mut c_void) -> Result<()> {
        // SAFETY: the table's own `self`; the caller keeps `free_host`'s contract.
        self.check(unsafe { (self.table.free_host)(self.table.self_, device, pointer) })
    }

    #[inline]
    unsafe fn memcpy_sync(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        kind: MemcpyKind,
        flags: CopyFlags,
    ) -> Result<()> {
        // SAFETY: the table's own `self`; the caller keeps `memcpy_sync`'s contract.
        self.check(unsafe {
            let (this, kind) = (self.table.self_, kind as u32);
            (self.table.memcpy_sync)(this, device, dst, src, size as u64, kind, flags)
        })
    }

    #[inline]
    unsafe fn memcpy_async(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        kind: MemcpyKind,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        // SAFETY: the table's own `self`; the caller keeps `memcpy_async`'s contract.
        self.check(unsafe {
            let (this, kind) = (self.table.self_, kind as u32);
            (self.table.memcpy_async)(this, device, dst, src, size as u64, kind, stream, flags)
        })
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn get_device_properties(&self, device: Ordinal) -> Result<LlaisysDeviceProperties> {
        self.optional(offset_of!(LlaisysBackendAPI, get_device_properties))?;
        let mut properties = LlaisysDeviceProperties::new();
        // SAFETY: the table's own `self`; the struct is ours and knows its size.
        self.check(unsafe {
            (self.table.get_device_properties)(self.table.self_, device, &mut properties)
        })?;
        properties.struct_size = size_of::<LlaisysDeviceProperties>() as u32;
        // A plugin's texts may fill their fields; a client's end with a NUL.
        let LlaisysDeviceProperties { name, vendor, pci_address, cpu_features, .. } =
            &mut properties;
        for text in [&mut name[..], &mut vendor[..], &mut pci_address[..], &mut cpu_features[..]] {
            text[text.len() - 1] = 0;
        }
        Ok(properties)
    }

    fn get_memory_info(&self, device: Ordinal) -> Result<LlaisysMemoryInfo> {
        self.optional(offset_of!(LlaisysBackendAPI, get_memory_info))?;
        let mut info = LlaisysMemoryInfo::new(0, 0);
        // SAFETY: the table's own `self`; the struct is ours and knows its size.
        self.check(unsafe { (self.table.get_memory_info)(self.table.self_, device, &mut info) })?;
        Ok(LlaisysMemoryInfo::new(info.free, info.total))
    }

    unsafe fn stream_query(&self, device: Ordinal, stream: Stream) -> Result<bool> {
        self.optional(offset_of!(LlaisysBackendAPI, stream_query))?;
        let mut ready = -1;
        // SAFETY: the table's own `self`; `ready` is ours; the caller keeps the contract.
        self.check(unsafe {
            (self.table.stream_query)(self.table.self_, device, stream, &mut ready)
        })?;
        Self::yes_or_no(ready)
    }

    unsafe fn launch_host_function(
        &self,
        device: Ordinal,
        stream: Stream,
        function: HostFunction,
        data: *mut c_void,
    ) -> Result<()> {
        self.optional(offset_of!(LlaisysBackendAPI, launch_host_function))?;
        // SAFETY: the table's own `self`; the caller keeps `launch_host_function`'s contract.
        self.check(unsafe {
            let this = self.table.self_;
            (self.table.launch_host_function)(this, device, stream, Some(function), data)
        })
    }

    fn is_device_memory(&self, device: Ordinal, address: usize) -> Result<bool> {
        self.optional(offset_of!(LlaisysBackendAPI, is_device_memory))?;
        let (mut answer, address) = (-1, std::ptr::without_provenance(address));
        // SAFETY: the table's own `self`; `answer` is ours; the address is only compared.
        self.check(unsafe {
            (self.table.is_device_memory)(self.table.self_, device, address, &mut answer)
        })?;
        Self::yes_or_no(answer)
    }

    fn initialize(&self) -> Result<i32> {
        if self.optional(offset_of!(LlaisysBackendAPI, initialize)).is_err() {
            return self.get_device_count();
        }
        let mut count = -1;
        // SAFETY: the table's own `self`; `count` is ours.
        self.check(unsafe { (self.table.initialize)(self.table.self_, &mut count) })?;
        if count < 0 { Err(Self::broken_promise("wrote no device count")) } else { Ok(count) }
    }

    fn get_peer_link(&self, device: Ordinal, peer: Ordinal) -> Result<LlaisysPeerLink> {
        self.optional(offset_of!(LlaisysBackendAPI, get_peer_link))?;
        let mut value = LlaisysPeerLink::staged();
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe {
            (self.table.get_peer_link)(self.table.self_, device, peer, &mut value)
        })?;
        value.struct_size = size_of::<LlaisysPeerLink>() as u32;
        Ok(value)
    }

    fn enable_peer_access(&self, device: Ordinal, peer: Ordinal) -> Result<()> {
        self.optional(offset_of!(LlaisysBackendAPI, enable_peer_access))?;
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe { (self.table.enable_peer_access)(self.table.self_, device, peer) })
    }

    fn create_stream_with(
        &self,
        device: Ordinal,
        flags: StreamFlags,
        priority: i32,
    ) -> Result<Stream> {
        self.optional(offset_of!(LlaisysBackendAPI, create_stream_with))?;
        let mut value = Stream::DEFAULT;
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe {
            (self.table.create_stream_with)(self.table.self_, device, flags, priority, &mut value)
        })?;
        if value.is_default() { Err(Self::broken_promise("the result is NULL")) } else { Ok(value) }
    }

    fn get_stream_priority_range(&self, device: Ordinal) -> Result<PriorityRange> {
        self.optional(offset_of!(LlaisysBackendAPI, get_stream_priority_range))?;
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe {
            (self.table.get_stream_priority_range)(
                self.table.self_,
                device,
                &mut least,
                &mut greatest,
            )
        })?;
        Ok(PriorityRange { least, greatest })
    }

    unsafe fn adopt_stream(&self, native: *mut c_void) -> Result<Ordinal> {
        self.optional(offset_of!(LlaisysBackendAPI, adopt_stream))?;
        let mut value = -1;
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe { (self.table.adopt_stream)(self.table.self_, native, &mut value) })?;
        Ok(value)
    }

    fn create_event(&self, device: Ordinal, flags: EventFlags) -> Result<Event> {
        self.optional(offset_of!(LlaisysBackendAPI, create_event))?;
        let mut value = Event(std::ptr::null_mut());
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe {
            (self.table.create_event)(self.table.self_, device, flags, &mut value)
        })?;
        if value.0.is_null() { Err(Self::broken_promise("the result is NULL")) } else { Ok(value) }
    }

    unsafe fn destroy_event(&self, device: Ordinal, event: Event) -> Result<()> {
        self.optional(offset_of!(LlaisysBackendAPI, destroy_event))?;
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe { (self.table.destroy_event)(self.table.self_, device, event) })
    }

    unsafe fn record_event(&self, device: Ordinal, event: Event, stream: Stream) -> Result<()> {
        self.optional(offset_of!(LlaisysBackendAPI, record_event))?;
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe { (self.table.record_event)(self.table.self_, device, event, stream) })
    }

    unsafe fn stream_wait_event(
        &self,
        device: Ordinal,
        stream: Stream,
        event: Event,
    ) -> Result<()> {
        self.optional(offset_of!(LlaisysBackendAPI, stream_wait_event))?;
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe {
            (self.table.stream_wait_event)(self.table.self_, device, stream, event)
        })
    }

    unsafe fn event_query(&self, device: Ordinal, event: Event) -> Result<bool> {
        self.optional(offset_of!(LlaisysBackendAPI, event_query))?;
        let mut answer = -1;
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe {
            (self.table.event_query)(self.table.self_, device, event, &mut answer)
        })?;
        Self::yes_or_no(answer)
    }

    unsafe fn event_synchronize(&self, device: Ordinal, event: Event) -> Result<()> {
        self.optional(offset_of!(LlaisysBackendAPI, event_synchronize))?;
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe { (self.table.event_synchronize)(self.table.self_, device, event) })
    }

    unsafe fn event_elapsed(&self, device: Ordinal, start: Event, end: Event) -> Result<i64> {
        self.optional(offset_of!(LlaisysBackendAPI, event_elapsed))?;
        let mut value = 0;
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe {
            (self.table.event_elapsed)(self.table.self_, device, start, end, &mut value)
        })?;
        Ok(value)
    }

    unsafe fn malloc_async(
        &self,
        device: Ordinal,
        size: usize,
        stream: Stream,
    ) -> Result<*mut c_void> {
        self.optional(offset_of!(LlaisysBackendAPI, malloc_async))?;
        let mut value = std::ptr::null_mut();
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe {
            (self.table.malloc_async)(self.table.self_, device, size as u64, stream, &mut value)
        })?;
        if value.is_null() { Err(Self::broken_promise("the result is NULL")) } else { Ok(value) }
    }

    unsafe fn free_async(
        &self,
        device: Ordinal,
        pointer: *mut c_void,
        stream: Stream,
    ) -> Result<()> {
        self.optional(offset_of!(LlaisysBackendAPI, free_async))?;
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe { (self.table.free_async)(self.table.self_, device, pointer, stream) })
    }

    fn malloc_managed(&self, device: Ordinal, size: usize) -> Result<*mut c_void> {
        self.optional(offset_of!(LlaisysBackendAPI, malloc_managed))?;
        let mut value = std::ptr::null_mut();
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe {
            (self.table.malloc_managed)(self.table.self_, device, size as u64, &mut value)
        })?;
        if value.is_null() { Err(Self::broken_promise("the result is NULL")) } else { Ok(value) }
    }

    unsafe fn free_managed(&self, device: Ordinal, pointer: *mut c_void) -> Result<()> {
        self.optional(offset_of!(LlaisysBackendAPI, free_managed))?;
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe { (self.table.free_managed)(self.table.self_, device, pointer) })
    }

    unsafe fn prefetch_managed(
        &self,
        device: Ordinal,
        pointer: *mut c_void,
        size: usize,
        location: i32,
        stream: Stream,
    ) -> Result<()> {
        self.optional(offset_of!(LlaisysBackendAPI, prefetch_managed))?;
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe {
            (self.table.prefetch_managed)(
                self.table.self_,
                device,
                pointer,
                size as u64,
                location,
                stream,
            )
        })
    }

    unsafe fn advise_managed(
        &self,
        device: Ordinal,
        pointer: *mut c_void,
        size: usize,
        advice: MemoryAdvice,
        location: i32,
    ) -> Result<()> {
        self.optional(offset_of!(LlaisysBackendAPI, advise_managed))?;
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe {
            (self.table.advise_managed)(
                self.table.self_,
                device,
                pointer,
                size as u64,
                advice as u32,
                location,
            )
        })
    }

    unsafe fn register_host(
        &self,
        device: Ordinal,
        pointer: *mut c_void,
        size: usize,
    ) -> Result<()> {
        self.optional(offset_of!(LlaisysBackendAPI, register_host))?;
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe {
            (self.table.register_host)(self.table.self_, device, pointer, size as u64)
        })
    }

    unsafe fn unregister_host(&self, device: Ordinal, pointer: *mut c_void) -> Result<()> {
        self.optional(offset_of!(LlaisysBackendAPI, unregister_host))?;
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe { (self.table.unregister_host)(self.table.self_, device, pointer) })
    }

    fn get_pointer_attributes(&self, address: usize) -> Result<LlaisysPointerAttributes> {
        self.optional(offset_of!(LlaisysBackendAPI, get_pointer_attributes))?;
        let address = std::ptr::without_provenance(address);
        let mut value = LlaisysPointerAttributes::pageable();
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe {
            (self.table.get_pointer_attributes)(self.table.self_, address, &mut value)
        })?;
        value.struct_size = size_of::<LlaisysPointerAttributes>() as u32;
        Ok(value)
    }

    unsafe fn memset_async(
        &self,
        device: Ordinal,
        dst: *mut c_void,
        pattern: Pattern,
        size: usize,
        stream: Stream,
    ) -> Result<()> {
        self.optional(offset_of!(LlaisysBackendAPI, memset_async))?;
        let pattern_bytes = pattern.bytes();
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe {
            (self.table.memset_async)(
                self.table.self_,
                device,
                dst,
                pattern_bytes.as_ptr().cast(),
                pattern_bytes.len() as u32,
                size as u64,
                stream,
            )
        })
    }

    unsafe fn memcpy_3d_async(
        &self,
        device: Ordinal,
        copy: &LlaisysCopy3D,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        self.optional(offset_of!(LlaisysBackendAPI, memcpy_3d_async))?;
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe {
            (self.table.memcpy_3d_async)(self.table.self_, device, copy, stream, flags)
        })
    }

    unsafe fn memcpy_batch_async(
        &self,
        device: Ordinal,
        ranges: &[LlaisysCopyRange],
        kind: MemcpyKind,
        stream: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        self.optional(offset_of!(LlaisysBackendAPI, memcpy_batch_async))?;
        let stride = size_of::<LlaisysCopyRange>() as u64;
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe {
            (self.table.memcpy_batch_async)(
                self.table.self_,
                device,
                ranges.as_ptr(),
                ranges.len() as u64,
                stride,
                kind as u32,
                stream,
                flags,
            )
        })
    }

    fn get_reserved_memory(&self, device: Ordinal) -> Result<u64> {
        self.optional(offset_of!(LlaisysBackendAPI, get_reserved_memory))?;
        let mut value = 0;
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe {
            (self.table.get_reserved_memory)(self.table.self_, device, &mut value)
        })?;
        Ok(value)
    }

    fn trim_memory(&self, device: Ordinal, keep: u64) -> Result<()> {
        self.optional(offset_of!(LlaisysBackendAPI, trim_memory))?;
        // SAFETY: the table's own `self`; outputs are ours; the caller keeps the contract.
        self.check(unsafe { (self.table.trim_memory)(self.table.self_, device, keep) })
    }
}
