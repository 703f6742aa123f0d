//! What a backend is able to do, and how: natively, through the core, or not at all.

/// What a backend is able to do, as bits.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Only the twelve.
    pub const NONE: Capabilities = Capabilities(0);
    /// Device memory is ordinary host memory: host code may read it, every copy direction is right.
    pub const DEVICE_MEMORY_IS_HOST_MEMORY: Capabilities = Capabilities(1);
    /// `get_device_properties` and `get_memory_info` are there.
    pub const DEVICE_INFORMATION: Capabilities = Capabilities(1 << 1);
    /// `stream_query` is there.
    pub const STREAM_QUERY: Capabilities = Capabilities(1 << 2);
    /// `launch_host_function` is there.
    pub const HOST_FUNCTIONS: Capabilities = Capabilities(1 << 3);

    /// `is_device_memory` and `get_pointer_attributes` are there.
    pub const POINTER_QUERY: Capabilities = Capabilities(1 << 4);
    /// `create_stream_with` and `get_stream_priority_range` are there.
    pub const STREAM_OPTIONS: Capabilities = Capabilities(1 << 5);
    /// `adopt_stream` is there.
    pub const FOREIGN_STREAMS: Capabilities = Capabilities(1 << 6);
    /// The seven event operations are there.
    pub const EVENTS: Capabilities = Capabilities(1 << 7);
    /// `malloc_async` and `free_async` are there.
    pub const STREAM_ORDERED_MEMORY: Capabilities = Capabilities(1 << 8);
    /// `malloc_managed`, `free_managed`, `prefetch_managed` and `advise_managed` are there.
    pub const MANAGED_MEMORY: Capabilities = Capabilities(1 << 9);
    /// `register_host` and `unregister_host` are there.
    pub const HOST_REGISTRATION: Capabilities = Capabilities(1 << 10);
    /// `memset_async` is there.
    pub const FILL: Capabilities = Capabilities(1 << 11);
    /// `memcpy_3d_async` is there.
    pub const PITCHED_COPIES: Capabilities = Capabilities(1 << 12);
    /// `memcpy_batch_async` is there.
    pub const BATCHED_COPIES: Capabilities = Capabilities(1 << 13);
    /// `get_peer_link` and `enable_peer_access` are there.
    pub const PEERS: Capabilities = Capabilities(1 << 14);
    /// `get_reserved_memory` and `trim_memory` are there.
    pub const MEMORY_POOL: Capabilities = Capabilities(1 << 15);

    /// The capabilities by name.
    pub const NAMES: [(Capabilities, &'static str); 16] = [
        (Capabilities::DEVICE_MEMORY_IS_HOST_MEMORY, "DEVICE_MEMORY_IS_HOST_MEMORY"),
        (Capabilities::DEVICE_INFORMATION, "DEVICE_INFORMATION"),
        (Capabilities::STREAM_QUERY, "STREAM_QUERY"),
        (Capabilities::HOST_FUNCTIONS, "HOST_FUNCTIONS"),
        (Capabilities::POINTER_QUERY, "POINTER_QUERY"),
        (Capabilities::STREAM_OPTIONS, "STREAM_OPTIONS"),
        (Capabilities::FOREIGN_STREAMS, "FOREIGN_STREAMS"),
        (Capabilities::EVENTS, "EVENTS"),
        (Capabilities::STREAM_ORDERED_MEMORY, "STREAM_ORDERED_MEMORY"),
        (Capabilities::MANAGED_MEMORY, "MANAGED_MEMORY"),
        (Capabilities::HOST_REGISTRATION, "HOST_REGISTRATION"),
        (Capabilities::FILL, "FILL"),
        (Capabilities::PITCHED_COPIES, "PITCHED_COPIES"),
        (Capabilities::BATCHED_COPIES, "BATCHED_COPIES"),
        (Capabilities::PEERS, "PEERS"),
        (Capabilities::MEMORY_POOL, "MEMORY_POOL"),
    ];

    /// The name of a single capability; empty for anything else.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(bit, _)| *bit == self).map_or("", |(_, name)| name)
    }

    /// Whether all bits of `other` are set here.
    pub const fn contains(self, other: Capabilities) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits of both.
    pub const fn with(self, other: Capabilities) -> Capabilities {
        Capabilities(self.0 | other.0)
    }
}

/// How an operation is there.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Not at all: it answers `NOT_SUPPORTED`.
    Unsupported = 0,
    /// The backend does it.
    Native = 1,
    /// The core does it with other operations of the backend.
    Emulated = 2,
}
