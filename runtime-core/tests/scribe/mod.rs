//! A backend that only writes down its calls: two devices, addresses handed out in steps and never used.

use llaisys_runtime_core::api::*;
use llaisys_runtime_core::managed::Managed;
use llaisys_runtime_core::{Error, Result, RuntimeApi, Status};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

/// See the module text.
#[derive(Clone, Default)]
pub struct Scribe {
    pub calls: Arc<Mutex<Vec<String>>>,
    pub fail_next: Arc<Mutex<Option<Error>>>,
    /// `stream_synchronize` meets the test here, twice.
    pub meeting: Arc<Mutex<Option<Arc<Barrier>>>>,
    /// What `capabilities` answers beside events and host functions.
    pub capabilities: Arc<AtomicU64>,
    /// What `event_query` answers.
    pub reached: Arc<Mutex<bool>>,
}

impl Scribe {
    fn note(&self, call: String) -> Result<()> {
        self.calls.lock().expect("no panic").push(call);
        match self.fail_next.lock().expect("no panic").take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    pub fn fail_next(&self, status: Status) {
        *self.fail_next.lock().expect("no panic") = Some(Error::new(status, "as asked"));
    }

    pub fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().expect("no panic"))
    }

    fn address(&self) -> *mut c_void {
        // Each process-wide pointer table entry of this test binary needs its own address.
        static NEXT: AtomicUsize = AtomicUsize::new(0x10_0000_0000);
        std::ptr::without_provenance_mut(NEXT.fetch_add(0x10_0000, Ordering::Relaxed))
    }
}

impl RuntimeApi for Scribe {
    fn get_device_count(&self) -> Result<i32> {
        Ok(2)
    }
    fn set_device(&self, device: Ordinal) -> Result<()> {
        self.note(format!("set_device {device}"))
    }
    fn device_synchronize(&self, device: Ordinal) -> Result<()> {
        self.note(format!("device_synchronize {device}"))
    }
    fn create_stream(&self, device: Ordinal) -> Result<Stream> {
        self.note(format!("create_stream {device}"))?;
        Ok(Stream(self.address()))
    }
    unsafe fn destroy_stream(&self, device: Ordinal, _: Stream) -> Result<()> {
        self.note(format!("destroy_stream {device}"))
    }
    unsafe fn stream_synchronize(&self, device: Ordinal, _: Stream) -> Result<()> {
        let meeting = self.meeting.lock().expect("no panic").clone();
        if let Some(barrier) = meeting {
            barrier.wait();
            barrier.wait();
        }
        self.note(format!("stream_synchronize {device}"))
    }
    fn malloc_device(&self, device: Ordinal, size: usize) -> Result<*mut c_void> {
        self.note(format!("malloc_device {device} {size}"))?;
        Ok(self.address())
    }
    unsafe fn free_device(&self, device: Ordinal, _: *mut c_void) -> Result<()> {
        self.note(format!("free_device {device}"))
    }
    fn malloc_host(&self, device: Ordinal, size: usize) -> Result<*mut c_void> {
        self.note(format!("malloc_host {device} {size}"))?;
        Ok(self.address())
    }
    unsafe fn free_host(&self, device: Ordinal, _: *mut c_void) -> Result<()> {
        self.note(format!("free_host {device}"))
    }
    unsafe fn memcpy_sync(
        &self,
        device: Ordinal,
        _: *mut c_void,
        _: *const c_void,
        size: usize,
        kind: MemcpyKind,
        flags: CopyFlags,
    ) -> Result<()> {
        self.note(format!("memcpy_sync {device} {size} {kind:?} {}", flags.0))
    }
    unsafe fn memcpy_async(
        &self,
        device: Ordinal,
        _: *mut c_void,
        _: *const c_void,
        size: usize,
        kind: MemcpyKind,
        _: Stream,
        flags: CopyFlags,
    ) -> Result<()> {
        self.note(format!("memcpy_async {device} {size} {kind:?} {}", flags.0))
    }
    unsafe fn launch_host_function(
        &self,
        device: Ordinal,
        _: Stream,
        function: HostFunction,
        data: *mut c_void,
    ) -> Result<()> {
        self.note(format!("launch_host_function {device}"))?;
        // SAFETY: called once, with the argument it came with.
        unsafe { function(data) };
        Ok(())
    }
    fn capabilities(&self) -> Capabilities {
        let also = Capabilities(self.capabilities.load(Ordering::Relaxed));
        also.with(Capabilities::EVENTS).with(Capabilities::HOST_FUNCTIONS)
    }
    fn create_event(&self, device: Ordinal, flags: EventFlags) -> Result<Event> {
        self.note(format!("create_event {device} {}", flags.0))?;
        Ok(Event(self.address()))
    }
    unsafe fn destroy_event(&self, device: Ordinal, _: Event) -> Result<()> {
        self.note(format!("destroy_event {device}"))
    }
    unsafe fn record_event(&self, device: Ordinal, _: Event, _: Stream) -> Result<()> {
        self.note(format!("record_event {device}"))
    }
    unsafe fn stream_wait_event(&self, device: Ordinal, _: Stream, _: Event) -> Result<()> {
        self.note(format!("stream_wait_event {device}"))
    }
    unsafe fn event_query(&self, device: Ordinal, _: Event) -> Result<bool> {
        self.note(format!("event_query {device}"))?;
        Ok(*self.reached.lock().expect("no panic"))
    }
    unsafe fn event_elapsed(&self, device: Ordinal, _: Event, _: Event) -> Result<i64> {
        self.note(format!("event_elapsed {device}"))?;
        Ok(-5)
    }
    unsafe fn memset_async(
        &self,
        device: Ordinal,
        _: *mut c_void,
        pattern: Pattern,
        size: usize,
        _: Stream,
    ) -> Result<()> {
        self.note(format!("memset_async {device} {:?} {size}", pattern.bytes()))
    }
    fn trim_memory(&self, device: Ordinal, keep: u64) -> Result<()> {
        self.note(format!("trim_memory {device} {keep}"))
    }
    fn get_reserved_memory(&self, _: Ordinal) -> Result<u64> {
        Ok(1 << 20)
    }
}

pub fn managed() -> (Scribe, &'static Managed<Scribe>) {
    let scribe = Scribe::default();
    (scribe.clone(), Managed::install(scribe, 40))
}

pub fn status<T>(result: Result<T>) -> Status {
    result.map(|_| Status::Success).unwrap_or_else(|error| error.status())
}
