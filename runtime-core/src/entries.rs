//! The entries of the table by name: which capability each belongs to, and what the core does when a
//! backend does not have it.
//!
//! Rule: this is the only list of names. A new entry of `abi::LlaisysBackendAPI` is appended here too;
//! the assertion below fails otherwise.

use crate::abi::LlaisysBackendAPI;
use crate::api::Capabilities;
use std::mem::offset_of;

/// What an entry is to a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Every backend has it.
    Required,
    /// A backend has it when it claims the capability.
    Optional(Capabilities),
    /// As `Optional`; the core does it with other operations when the backend does not.
    Emulated(Capabilities),
    /// The core does it for every backend.
    Core,
}

/// One entry of the table.
#[derive(Debug)]
pub struct Entry {
    /// Its name in the table.
    pub name: &'static str,
    offset: usize,
    /// What it is to a backend.
    pub role: Role,
}

macro_rules! entries {
    ($($role:expr => $($name:ident)+;)+) => {
        /// The entries in the order of the table.
        pub const ENTRIES: &[Entry] = &[
            $($(Entry {
                name: stringify!($name),
                offset: offset_of!(LlaisysBackendAPI, $name),
                role: $role,
            },)+)+
        ];
    };
}

entries! {
    Role::Required => get_last_error get_device_count set_device device_synchronize create_stream
        destroy_stream stream_synchronize malloc_device free_device malloc_host free_host
        memcpy_sync memcpy_async;
    Role::Optional(Capabilities::DEVICE_INFORMATION) => get_device_properties get_memory_info;
    Role::Optional(Capabilities::STREAM_QUERY) => stream_query;
    Role::Optional(Capabilities::HOST_FUNCTIONS) => launch_host_function;
    Role::Optional(Capabilities::POINTER_QUERY) => is_device_memory;
    Role::Core => initialize get_capabilities;
    Role::Optional(Capabilities::PEERS) => get_peer_link enable_peer_access;
    Role::Optional(Capabilities::STREAM_OPTIONS) => create_stream_with get_stream_priority_range;
    Role::Optional(Capabilities::FOREIGN_STREAMS) => adopt_stream;
    Role::Optional(Capabilities::EVENTS) => create_event destroy_event record_event
        stream_wait_event event_query event_synchronize event_elapsed;
    Role::Emulated(Capabilities::STREAM_ORDERED_MEMORY) => malloc_async free_async;
    Role::Optional(Capabilities::MANAGED_MEMORY) => malloc_managed free_managed prefetch_managed
        advise_managed;
    Role::Optional(Capabilities::HOST_REGISTRATION) => register_host unregister_host;
    Role::Emulated(Capabilities::POINTER_QUERY) => get_pointer_attributes;
    Role::Emulated(Capabilities::FILL) => memset_async;
    Role::Emulated(Capabilities::PITCHED_COPIES) => memcpy_3d_async;
    Role::Emulated(Capabilities::BATCHED_COPIES) => memcpy_batch_async;
    Role::Emulated(Capabilities::MEMORY_POOL) => get_reserved_memory trim_memory;
    Role::Core => get_stream_device;
    Role::Optional(Capabilities::EVENTS) => get_native_event;
    Role::Core => get_operation_support;
    Role::Emulated(Capabilities::FILL) => memset_sync;
    Role::Emulated(Capabilities::PITCHED_COPIES) => memcpy_3d_sync;
    Role::Core => get_memory_statistics get_stream_memory_statistics reset_peak_memory
        set_memory_limit set_out_of_memory_callback set_thread_slot get_thread_slot set_stream_slot
        get_stream_slot;
}

/// Where the entries begin: everything before is the head of the table.
pub const HEAD: usize = offset_of!(LlaisysBackendAPI, get_last_error);
/// The least a table must hold: the required entries.
pub const LEAST: usize = offset_of!(LlaisysBackendAPI, get_device_properties);
/// The size of an entry.
pub const WORD: usize = size_of::<usize>();

const _: () = {
    assert!(
        HEAD + ENTRIES.len() * WORD == size_of::<LlaisysBackendAPI>(),
        "an entry is missing here"
    );
    let mut index = 0;
    while index < ENTRIES.len() {
        assert!(ENTRIES[index].offset == offset_at(index), "an entry is not in its place here");
        index += 1;
    }
};

/// Where the entry with this index stands in the table.
pub const fn offset_at(index: usize) -> usize {
    HEAD + index * WORD
}

/// The place of the entry that stands at `offset`.
pub const fn index_of(offset: usize) -> usize {
    (offset - HEAD) / WORD
}

/// The entry of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

impl Entry {
    /// The capability that is a lie when a plugin lacks this entry.
    pub fn claimed_by(&self) -> Option<Capabilities> {
        match self.role {
            Role::Required | Role::Core => None,
            Role::Optional(group) | Role::Emulated(group) => {
                (!CORE_SIDE.contains(&self.name)).then_some(group)
            }
        }
    }
}

/// Entries that belong to a capability but that the core makes from the group's other entries.
const CORE_SIDE: [&str; 3] = ["get_native_event", "memset_sync", "memcpy_3d_sync"];
