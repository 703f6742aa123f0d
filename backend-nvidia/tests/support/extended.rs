//! The rest of the plugin's table as the stories want it, and the driver behind the plugin, for what the
//! table does not show and for the part of another CUDA library.

use super::{Failure, Plugin, driver_with_devices, in_a_child};
use libloading::os::unix::Library;
use llaisys_runtime_core::api::{
    Capabilities, CopyFlags, Event, EventFlags, LlaisysCopy3D, LlaisysCopyRange,
    LlaisysDeviceProperties, LlaisysPeerLink, LlaisysPointerAttributes, PriorityRange, Stream,
    StreamFlags,
};
use std::ffi::{CString, c_char, c_void};
use std::mem::ManuallyDrop;

/// What was asked for, or the failure.
pub type Answer<T> = Result<T, Failure>;

/// Whether the stories run on the machine's own driver.
pub fn is_real() -> bool {
    std::env::var_os("LLAISYS_TEST_DRIVER").is_some_and(|driver| driver.is_empty())
}

/// Runs a story in a child, on a fake driver with this environment.
pub fn on_a_fake(test: &str, environment: &[(&str, &str)], story: impl FnOnce(&Plugin)) {
    if is_real() {
        println!("skipped: a real driver is as it is");
        return;
    }
    let driver = driver_with_devices();
    let mut all = vec![("LLAISYS_CUDA_DRIVER", driver.as_str())];
    all.extend(environment);
    in_a_child(test, &all, || story(&Plugin::open()));
}

/// The driver that the plugin has open.
pub struct Cuda(ManuallyDrop<Library>);

impl Cuda {
    pub fn open() -> Cuda {
        let named = std::env::var("LLAISYS_CUDA_DRIVER").unwrap_or_default();
        let file = if named.is_empty() { "libcuda.so.1" } else { named.as_str() };
        // SAFETY: it is the driver that the plugin opens.
        Cuda(ManuallyDrop::new(unsafe { Library::new(file) }.expect("the driver is there")))
    }

    /// A function of the driver's; `T` is its type.
    pub fn function<T: Copy>(&self, name: &str) -> T {
        self.find(name).expect("the driver has it")
    }

    fn find<T: Copy>(&self, name: &str) -> Option<T> {
        let name = CString::new(name).expect("no NUL");
        // SAFETY: the stories give the type that the function of this name has.
        unsafe { self.0.get::<T>(name.as_bytes_with_nul()) }.ok().map(|found| *found)
    }

    /// A count of the fake driver's own; `None` on a real one.
    pub fn count(&self, name: &str) -> Option<i64> {
        let function: unsafe extern "C" fn() -> i64 = self.find(&format!("fakecuda_{name}"))?;
        // SAFETY: it takes nothing.
        Some(unsafe { function() })
    }

    /// How often a function was called; `None` on a real driver.
    pub fn calls(&self, name: &str) -> Option<i64> {
        let function: unsafe extern "C" fn(*const c_char) -> i64 =
            self.find("fakecuda_call_count")?;
        let name = CString::new(name).expect("no NUL");
        // SAFETY: the name ends with a NUL.
        Some(unsafe { function(name.as_ptr()) })
    }

    /// A stream made with plain CUDA in the context that is current.
    pub fn stream(&self, flags: u32) -> *mut c_void {
        let create: unsafe extern "C" fn(*mut *mut c_void, u32) -> i32 =
            self.function("cuStreamCreate");
        let mut stream = std::ptr::null_mut();
        // SAFETY: `stream` is writable.
        assert_eq!(unsafe { create(&mut stream, flags) }, 0);
        stream
    }

    /// Calls a function that takes one handle.
    pub fn call(&self, name: &str, handle: *mut c_void) -> i32 {
        let function: unsafe extern "C" fn(*mut c_void) -> i32 = self.function(name);
        // SAFETY: the stories give a live handle of the function's kind.
        unsafe { function(handle) }
    }

    /// Device memory made with plain CUDA in the context that is current.
    pub fn memory(&self, size: usize) -> *mut c_void {
        let allocate: unsafe extern "C" fn(*mut *mut c_void, usize) -> i32 =
            self.function("cuMemAlloc_v2");
        let mut memory = std::ptr::null_mut();
        // SAFETY: `memory` is writable.
        assert_eq!(unsafe { allocate(&mut memory, size) }, 0);
        memory
    }
}

/// The extended operations: on the device given, failures as values.
pub trait Extended {
    fn properties(&self, device: i32) -> LlaisysDeviceProperties;
    fn has(&self, device: i32, what: Capabilities) -> bool;
    fn bind(&self, device: i32);
    fn link(&self, device: i32, peer: i32) -> Answer<LlaisysPeerLink>;
    fn enable(&self, device: i32, peer: i32) -> Answer<()>;
    fn stream_with(&self, device: i32, flags: StreamFlags, priority: i32) -> Answer<Stream>;
    fn priorities(&self) -> Answer<PriorityRange>;
    fn adopt(&self, native: *mut c_void) -> Answer<i32>;
    fn event(&self, device: i32, flags: EventFlags) -> Answer<Event>;
    fn destroy_event(&self, event: Event) -> Answer<()>;
    fn record(&self, event: Event, stream: Stream) -> Answer<()>;
    fn wait_in(&self, device: i32, stream: Stream, event: Event) -> Answer<()>;
    fn is_reached(&self, event: Event) -> Answer<bool>;
    fn wait_for(&self, event: Event) -> Answer<()>;
    fn elapsed(&self, start: Event, end: Event) -> Answer<i64>;
    fn memory_in(&self, stream: Stream, size: u64) -> Answer<*mut c_void>;
    fn free_in(&self, stream: Stream, pointer: *mut c_void) -> Answer<()>;
    fn managed(&self, size: u64) -> Answer<*mut c_void>;
    fn free_managed(&self, pointer: *mut c_void) -> Answer<()>;
    fn prefetch(&self, pointer: *mut c_void, size: u64, place: i32) -> Answer<()>;
    fn advise(&self, pointer: *mut c_void, size: u64, advice: u32, place: i32) -> Answer<()>;
    fn register(&self, memory: &mut [u8]) -> Answer<()>;
    fn unregister(&self, memory: &mut [u8]) -> Answer<()>;
    fn attributes(&self, address: *const c_void) -> Answer<LlaisysPointerAttributes>;
    fn set(&self, stream: Stream, to: *mut c_void, pattern: &[u8], size: u64) -> Answer<()>;
    fn pitched(&self, stream: Stream, copy: &LlaisysCopy3D, flags: CopyFlags) -> Answer<()>;
    fn batch(
        &self,
        stream: Stream,
        ranges: &[LlaisysCopyRange],
        kind: u32,
        flags: CopyFlags,
    ) -> Answer<()>;
    fn reserved(&self) -> u64;
    fn trim(&self, keep: u64) -> Answer<()>;
}

/// One call of the table with its outputs, which are read only on success.
macro_rules! ask {
    ($plugin:ident.$name:ident($($argument:expr),*) -> $($output:ident),*) => {{
        // SAFETY: the outputs are writable; the stories give handles and ranges that fit.
        let status = unsafe {
            ($plugin.api.$name)($plugin.api.self_, $($argument,)* $(&mut $output),*)
        };
        $plugin.result(status).map(|()| ($($output),*))
    }};
}

impl Extended for Plugin {
    fn properties(&self, device: i32) -> LlaisysDeviceProperties {
        let mut properties = LlaisysDeviceProperties::new();
        ask!(self.get_device_properties(device) -> properties).expect("properties")
    }
    fn has(&self, device: i32, what: Capabilities) -> bool {
        Capabilities(self.properties(device).capabilities).contains(what)
    }
    fn bind(&self, device: i32) {
        ask!(self.set_device(device) -> ).expect("bound");
    }
    fn link(&self, device: i32, peer: i32) -> Answer<LlaisysPeerLink> {
        let mut link = LlaisysPeerLink::staged();
        ask!(self.get_peer_link(device, peer) -> link)
    }
    fn enable(&self, device: i32, peer: i32) -> Answer<()> {
        ask!(self.enable_peer_access(device, peer) -> )
    }
    fn stream_with(&self, device: i32, flags: StreamFlags, priority: i32) -> Answer<Stream> {
        let mut stream = Stream::DEFAULT;
        ask!(self.create_stream_with(device, flags, priority) -> stream)
    }
    fn priorities(&self) -> Answer<PriorityRange> {
        let (mut least, mut greatest) = (0, 0);
        let (least, greatest) = ask!(self.get_stream_priority_range(0) -> least, greatest)?;
        Ok(PriorityRange { least, greatest })
    }
    fn adopt(&self, native: *mut c_void) -> Answer<i32> {
        let mut device = -7;
        ask!(self.adopt_stream(native) -> device)
    }
    fn event(&self, device: i32, flags: EventFlags) -> Answer<Event> {
        let mut event = Event(std::ptr::null_mut());
        ask!(self.create_event(device, flags) -> event)
    }
    fn destroy_event(&self, event: Event) -> Answer<()> {
        ask!(self.destroy_event(0, event) -> )
    }
    fn record(&self, event: Event, stream: Stream) -> Answer<()> {
        ask!(self.record_event(0, event, stream) -> )
    }
    fn wait_in(&self, device: i32, stream: Stream, event: Event) -> Answer<()> {
        ask!(self.stream_wait_event(device, stream, event) -> )
    }
    fn is_reached(&self, event: Event) -> Answer<bool> {
        let mut answer = -1;
        ask!(self.event_query(0, event) -> answer).map(|answer| answer == 1)
    }
    fn wait_for(&self, event: Event) -> Answer<()> {
        ask!(self.event_synchronize(0, event) -> )
    }
    fn elapsed(&self, start: Event, end: Event) -> Answer<i64> {
        let mut nanoseconds = i64::MIN;
        ask!(self.event_elapsed(0, start, end) -> nanoseconds)
    }
    fn memory_in(&self, stream: Stream, size: u64) -> Answer<*mut c_void> {
        let mut pointer = std::ptr::null_mut();
        ask!(self.malloc_async(0, size, stream) -> pointer)
    }
    fn free_in(&self, stream: Stream, pointer: *mut c_void) -> Answer<()> {
        ask!(self.free_async(0, pointer, stream) -> )
    }
    fn managed(&self, size: u64) -> Answer<*mut c_void> {
        let mut pointer = std::ptr::null_mut();
        ask!(self.malloc_managed(0, size) -> pointer)
    }
    fn free_managed(&self, pointer: *mut c_void) -> Answer<()> {
        ask!(self.free_managed(0, pointer) -> )
    }
    fn prefetch(&self, pointer: *mut c_void, size: u64, place: i32) -> Answer<()> {
        ask!(self.prefetch_managed(0, pointer, size, place, Stream::DEFAULT) -> )
    }
    fn advise(&self, pointer: *mut c_void, size: u64, advice: u32, place: i32) -> Answer<()> {
        ask!(self.advise_managed(0, pointer, size, advice, place) -> )
    }
    fn register(&self, memory: &mut [u8]) -> Answer<()> {
        ask!(self.register_host(0, memory.as_mut_ptr().cast(), memory.len() as u64) -> )
    }
    fn unregister(&self, memory: &mut [u8]) -> Answer<()> {
        ask!(self.unregister_host(0, memory.as_mut_ptr().cast()) -> )
    }
    fn attributes(&self, address: *const c_void) -> Answer<LlaisysPointerAttributes> {
        let mut attributes = LlaisysPointerAttributes::pageable();
        ask!(self.get_pointer_attributes(address) -> attributes)
    }
    fn set(&self, stream: Stream, to: *mut c_void, pattern: &[u8], size: u64) -> Answer<()> {
        let (bytes, count) = (pattern.as_ptr().cast(), pattern.len() as u32);
        ask!(self.memset_async(0, to, bytes, count, size, stream) -> )
    }
    fn pitched(&self, stream: Stream, copy: &LlaisysCopy3D, flags: CopyFlags) -> Answer<()> {
        ask!(self.memcpy_3d_async(0, copy, stream, flags) -> )
    }
    fn batch(
        &self,
        stream: Stream,
        ranges: &[LlaisysCopyRange],
        kind: u32,
        flags: CopyFlags,
    ) -> Answer<()> {
        let (first, count) = (ranges.as_ptr(), ranges.len() as u64);
        let stride = size_of::<LlaisysCopyRange>() as u64;
        ask!(self.memcpy_batch_async(0, first, count, stride, kind, stream, flags) -> )
    }
    fn reserved(&self) -> u64 {
        let mut bytes = u64::MAX;
        ask!(self.get_reserved_memory(0) -> bytes).expect("a number")
    }
    fn trim(&self, keep: u64) -> Answer<()> {
        ask!(self.trim_memory(0, keep) -> )
    }
}
