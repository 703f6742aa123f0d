//! Every operation of the table by name: what `get_operation_support` says of it, and what really
//! calling it answers.
//!
//! Rule: a call here has right arguments, so that the only reason for a failure is that the operation
//! is missing. Where a right argument cannot be had because the operation that makes it is missing too,
//! the call gets a stand-in; it must answer NOT_SUPPORTED before it looks at that.

use crate::address::Address;
use crate::code::Code;
use crate::context::Context;
use crate::extended::memory::Batch;
use crate::extended::{Answer, Copy};
use crate::outcome::{Checked, Stop};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{
    Capabilities, CopyFlags, Event, EventFlags, LlaisysCopy3D, LlaisysCopyRange, MemcpyKind,
    Stream, Support,
};
use llaisys_runtime_core::entries::{ENTRIES, Role};
use std::ffi::{CString, c_void};
use std::ptr;

/// One operation and whether what is said of it is true.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its name in the table.
    pub name: &'static str,
    /// How it is there: `native`, `emulated`, `unsupported`.
    pub support: &'static str,
    /// A call answered as it was said.
    pub verified: bool,
    /// What the call answered.
    pub answer: String,
}

fn word(support: i32) -> &'static str {
    match support {
        0 => "unsupported",
        1 => "native",
        2 => "emulated",
        _ => "no such number",
    }
}

/// How an operation is there.
pub fn support(context: &Context, name: &str) -> Checked<i32> {
    let text = CString::new(name).map_err(|error| Stop::fail(error.to_string()))?;
    let what = format!("get_operation_support({name})");
    context.ok(context.x.get_operation_support(&text), &what)
}

/// The whole table, each entry called once.
pub fn table(context: &Context) -> Checked<Vec<Operation>> {
    ENTRIES
        .iter()
        .map(|entry| {
            let said = support(context, entry.name)?;
            let expected = match entry.role {
                Role::Required | Role::Core => Support::Native,
                Role::Optional(bit) | Role::Emulated(bit) => {
                    match context.capabilities.contains(bit) {
                        true => Support::Native,
                        false if matches!(entry.role, Role::Optional(_)) => Support::Unsupported,
                        false => Support::Emulated,
                    }
                }
            };
            let found = call(context, entry.name)?;
            // What a call left in the slot belongs to the table.
            let failure = context.failure()?;
            let is_missing = found == Err(Code::from(Status::NotSupported));
            let as_said =
                if said == Support::Unsupported as i32 { is_missing } else { found.is_ok() };
            let text = failure.map_or(String::new(), |failure| format!(": {}", failure.message));
            Ok(Operation {
                name: entry.name,
                support: word(said),
                verified: as_said && said == expected as i32,
                answer: match found {
                    Ok(()) => "SUCCESS".to_owned(),
                    Err(code) => format!("{code:?}{text}"),
                },
            })
        })
        .collect()
}

/// What one operation answers when it is called; clears nothing from the slot.
pub fn call(context: &Context, name: &str) -> Checked<Answer> {
    let all = Trial::new(context)?;
    let answer = all.call(name);
    all.end();
    answer
}

/// What the calls work on.
struct Trial<'a> {
    context: &'a Context,
    stream: Stream,
    one: Address,
    two: Address,
    event: Answer<Event>,
    managed: Answer<Address>,
    own: Vec<u8>,
}

unsafe extern "C" fn nothing(_: *mut c_void) {}

impl<'a> Trial<'a> {
    fn new(context: &'a Context) -> Checked<Trial<'a>> {
        let x = &context.x;
        let block = || context.ok(x.malloc_device(0, 4096), "malloc_device");
        let trial = Trial {
            context,
            stream: context.ok(x.create_stream(0), "create_stream")?,
            one: block()?,
            two: block()?,
            event: x.create_event(0, EventFlags::TIMING),
            managed: x.malloc_managed(0, 4096),
            own: vec![0; 4096],
        };
        context.failure()?;
        Ok(trial)
    }

    /// Puts everything away; failures here are not the table's.
    fn end(self) {
        let x = &self.context.x;
        let _ = x.stream_synchronize(0, self.stream);
        let _ = x.destroy_stream(0, self.stream);
        let _ = (x.free_device(0, self.one), x.free_device(0, self.two));
        let _ = self.event.map(|event| x.destroy_event(event));
        let _ = self.managed.map(|address| x.free_managed(address));
    }

    fn event(&self) -> Event {
        self.event.unwrap_or(Event(ptr::without_provenance_mut(1 << 32 | 1)))
    }

    fn call(&self, name: &str) -> Checked<Answer> {
        let (context, x, stream) = (self.context, &self.context.x, self.stream);
        let own = Address::of(&self.own);
        let copy = Copy::new(self.one, self.two, 4096, MemcpyKind::D2D);
        Ok(match name {
            "get_last_error" => {
                let (x, mut code) = (x.raw, 0);
                let none = ptr::null_mut();
                // SAFETY: `code` is ours; no texts are asked for.
                Code(unsafe { (x.get_last_error)(x.self_, &mut code, none, 0, none, 0) }).result()
            }
            "get_device_count" => x.get_device_count().map(drop),
            "set_device" => x.set_device(0),
            "device_synchronize" => x.device_synchronize(0),
            "create_stream" | "destroy_stream" => {
                x.create_stream(0).and_then(|stream| x.destroy_stream(0, stream))
            }
            "stream_synchronize" => x.stream_synchronize(0, stream),
            "malloc_device" | "free_device" => {
                x.malloc_device(0, 64).and_then(|block| x.free_device(0, block))
            }
            "malloc_host" | "free_host" => {
                x.malloc_host(0, 64).and_then(|block| x.free_host(0, block))
            }
            "memcpy_sync" => x.memcpy_sync(0, copy),
            "memcpy_async" => x.memcpy_async(0, copy, stream),
            "get_device_properties" => x.get_device_properties(0).map(drop),
            "get_memory_info" => x.get_memory_info(0).map(drop),
            "stream_query" => x.stream_query(0, stream).map(drop),
            // SAFETY: `nothing` may be called from anywhere.
            "launch_host_function" => unsafe {
                x.launch_host_function(0, stream, nothing, ptr::null_mut())
            },
            // An address that the core does not know, so that the backend is asked.
            "is_device_memory" => x.is_device_memory(0, own).map(drop),
            "initialize" => x.initialize().map(drop),
            "get_capabilities" => x.get_capabilities().map(drop),
            "get_peer_link" | "enable_peer_access" => self.peers(name),
            "create_stream_with" => {
                x.create_stream_with(0, 1, 0).and_then(|stream| x.destroy_stream(0, stream))
            }
            "get_stream_priority_range" => x.get_stream_priority_range(0).map(drop),
            "adopt_stream" => self.adopt(),
            "create_event" | "destroy_event" if self.event.is_ok() => {
                x.create_event(0, EventFlags::NONE).and_then(|event| x.destroy_event(event))
            }
            "create_event" => x.create_event(0, EventFlags::NONE).map(drop),
            "destroy_event" => x.destroy_event(self.event()),
            "record_event" => x.record_event(0, self.event(), stream),
            "stream_wait_event" => x.stream_wait_event(0, stream, self.event()),
            "event_query" => x.event_query(self.event()).map(drop),
            "event_synchronize" => x.event_synchronize(self.event()),
            "event_elapsed" => {
                if self.event.is_ok() {
                    let ready = x.record_event(0, self.event(), stream);
                    context.ok(ready, "record_event")?;
                    context.ok(x.event_synchronize(self.event()), "event_synchronize")?;
                }
                x.event_elapsed(self.event(), self.event()).map(drop)
            }
            "malloc_async" | "free_async" => {
                x.malloc_async(0, 64, stream).and_then(|block| x.free_async(0, block, stream))
            }
            "malloc_managed" => x.malloc_managed(0, 64).and_then(|block| x.free_managed(block)),
            "free_managed" | "prefetch_managed" | "advise_managed" => self.managed(name),
            "register_host" => x.register_host(0, own, 4096).and_then(|()| x.unregister_host(own)),
            "unregister_host" => {
                let registered = x.register_host(0, own, 4096);
                let answer = x.unregister_host(own);
                if registered.is_ok() { answer } else { answer.and(registered) }
            }
            "get_pointer_attributes" => x.get_pointer_attributes(own).map(drop),
            "memset_async" => x.memset_async(0, self.one, &[1, 2], 4096, stream),
            "memset_sync" => x.memset_sync(0, self.one, &[1, 2], 4096),
            "memcpy_3d_async" => x.memcpy_3d_async(0, &self.pitched(), stream),
            "memcpy_3d_sync" => x.memcpy_3d_sync(0, &self.pitched()),
            "memcpy_batch_async" => {
                let range =
                    LlaisysCopyRange { dst: self.one.pointer(), src: self.two.pointer(), size: 64 };
                let ranges = &[range];
                let kind = MemcpyKind::D2D as u32;
                x.memcpy_batch_async(0, Batch { ranges, kind, flags: CopyFlags::NONE }, stream)
            }
            "get_reserved_memory" => x.get_reserved_memory(0).map(drop),
            "trim_memory" => x.trim_memory(0, u64::MAX),
            "get_stream_device" => x.get_stream_device(stream).map(drop),
            "get_native_event" => x.get_native_event(self.event()).map(drop),
            "get_operation_support" => x.get_operation_support(c"memcpy_sync").map(drop),
            "get_memory_statistics" => x.get_memory_statistics(0).map(drop),
            "get_stream_memory_statistics" => x.get_stream_memory_statistics(0, stream).map(drop),
            "reset_peak_memory" => x.reset_peak_memory(0),
            "set_memory_limit" => x.set_memory_limit(0, u64::MAX),
            // SAFETY: takes a callback away.
            "set_out_of_memory_callback" => unsafe {
                x.set_out_of_memory_callback(None, ptr::null_mut())
            },
            // SAFETY: there is no destructor.
            "set_thread_slot" => unsafe { x.set_thread_slot(0, 1, ptr::null_mut(), None) },
            "get_thread_slot" => x.get_thread_slot(0, 1).map(drop),
            // SAFETY: there is no destructor.
            "set_stream_slot" => unsafe { x.set_stream_slot(stream, 1, ptr::null_mut(), None) },
            "get_stream_slot" => x.get_stream_slot(stream, 1).map(drop),
            _ => return Err(Stop::fail(format!("the suite does not know how to call {name}"))),
        })
    }

    /// Links exist between two devices; with one, the operation is known by refusing what it must.
    fn peers(&self, name: &str) -> Answer {
        let (context, x) = (self.context, &self.context.x);
        let has = context.capabilities.contains(Capabilities::PEERS);
        let peer = i32::from(context.count > 1);
        if name == "get_peer_link" {
            return x.get_peer_link(0, peer).map(drop);
        }
        let answer = x.enable_peer_access(0, peer);
        let link = x.get_peer_link(0, peer);
        let right = match (context.count > 1, link) {
            (false, _) => Err(Code::from(Status::InvalidValue)),
            (true, Ok(link)) if link.can_access == 0 => Err(Code::from(Status::NotSupported)),
            _ => Ok(()),
        };
        if has && answer == right { Ok(()) } else { answer }
    }

    /// A stream of its own backend is known already; one that is nobody's must not be followed, so this
    /// asks with NULL, which every backend that has it refuses as a value.
    fn adopt(&self) -> Answer {
        let x = &self.context.x;
        match x.adopt_stream(Address::NULL) {
            Err(code) if code.is(Status::InvalidValue) => {
                x.adopt_stream(Address::from_pointer(self.stream.0)).map(drop)
            }
            answer => answer.map(drop),
        }
    }

    fn managed(&self, name: &str) -> Answer {
        let x = &self.context.x;
        let at = self.managed.unwrap_or(self.one);
        match name {
            "prefetch_managed" => x.prefetch_managed(at, 4096, 0, self.stream),
            "advise_managed" => x.advise_managed(at, 4096, 1, 0),
            _ => match x.malloc_managed(0, 64) {
                Ok(block) => x.free_managed(block),
                Err(_) => x.free_managed(Address::GARBAGE),
            },
        }
    }

    fn pitched(&self) -> LlaisysCopy3D {
        LlaisysCopy3D {
            struct_size: size_of::<LlaisysCopy3D>() as u32,
            kind: MemcpyKind::D2D as u32,
            dst: self.one.pointer(),
            dst_pitch: 64,
            dst_slice_height: 8,
            src: self.two.pointer(),
            src_pitch: 32,
            src_slice_height: 8,
            width: 16,
            height: 8,
            depth: 2,
        }
    }
}
