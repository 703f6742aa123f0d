//! Memory: allocated against an account, remembered, claimed before it is freed.

use super::{Entered, Managed};
use crate::accounting::Account;
use crate::api::*;
use crate::error::{Error, Result};
use crate::fork::ForkAware;
use crate::lock::{ForkLock, Mutex};
use crate::pointers::{self, About, Block, MemoryKind};
use crate::status::Status;
use std::ffi::c_void;

/// How often a callback may ask for one more try of the same allocation.
const CALLBACK_TRIES: usize = 16;

/// The accounts of a backend's devices, and who is asked when memory runs out.
pub struct Accounts {
    /// Never freed: pools and threads count in them.
    devices: Mutex<Vec<&'static DeviceAccounts>>,
    callback: Mutex<Option<(OutOfMemoryCallback, *mut c_void)>>,
}

// SAFETY: the callback's data is only passed back to it, from any thread, as whoever set it allowed.
unsafe impl Send for Accounts {}
// SAFETY: as above.
unsafe impl Sync for Accounts {}

#[derive(Default)]
struct DeviceAccounts {
    all: Account,
    /// What was allocated on the default stream.
    default_stream: Account,
}

impl Accounts {
    pub(super) const fn new() -> Accounts {
        Accounts { devices: Mutex::new(Vec::new()), callback: Mutex::new(None) }
    }

    fn of(&self, device: Ordinal) -> Result<&'static DeviceAccounts> {
        let index = usize::try_from(device)
            .map_err(|_| Error::new(Status::InvalidDevice, format!("device {device}")))?;
        let mut devices = self.devices.lock();
        while devices.len() <= index {
            devices.push(Box::leak(Box::default()));
        }
        Ok(devices[index])
    }

    pub(super) fn device(&self, device: Ordinal) -> Result<&'static Account> {
        Ok(&self.of(device)?.all)
    }

    pub(super) fn default_stream(&self, device: Ordinal) -> Result<&'static Account> {
        Ok(&self.of(device)?.default_stream)
    }

    pub(super) fn set_callback(&self, callback: Option<OutOfMemoryCallback>, data: *mut c_void) {
        *self.callback.lock() = callback.map(|callback| (callback, data));
    }

    /// Asks the user for memory; whether the allocation should be tried again.
    fn ask(&self, device_type: i32, device: Ordinal, requested: usize) -> bool {
        // No lock of ours is held while the user's function runs.
        let asked = *self.callback.lock();
        asked.is_some_and(|(callback, data)| {
            // SAFETY: whoever set it allowed it to be called with this data.
            unsafe { callback(data, device_type, device, requested as u64) != 0 }
        })
    }
}

impl ForkAware for Accounts {
    fn prepare(&self) {
        self.devices.hold();
        // SAFETY: held just now, so the list stays as it is until it is released.
        let devices = unsafe { &*self.devices.data_ptr() };
        devices.iter().for_each(|accounts| accounts.all.hold());
        self.callback.hold();
    }
    fn parent(&self) {
        // SAFETY: held by `prepare` on this thread, and the list has stayed as it was.
        unsafe {
            (*self.devices.data_ptr()).iter().for_each(|accounts| accounts.all.release());
            self.devices.release();
            self.callback.release();
        }
    }
}

impl<B: RuntimeApi> Managed<B> {
    /// Allocates with `call` and remembers the block. Zero bytes are NULL (M1).
    pub(super) fn allocate(
        &self,
        device: Ordinal,
        size: usize,
        kind: MemoryKind,
        call: impl Fn(&B) -> Result<*mut c_void>,
    ) -> Result<*mut c_void> {
        self.allocate_for(device, size, kind, None, call)
    }

    /// Allocates device memory where the shortest way found none.
    #[cold]
    #[inline(never)]
    pub(super) fn allocate_device(&self, device: Ordinal, size: usize) -> Result<*mut c_void> {
        if let Some(pool) = self.pool_for(MemoryKind::Device, device, size)? {
            return self.allocate_pooled(pool, device, size, None);
        }
        self.allocate(device, size, MemoryKind::Device, |backend| {
            backend.malloc_device(device, size)
        })
    }

    /// Allocates pinned memory where the shortest way found none.
    #[cold]
    #[inline(never)]
    pub(super) fn allocate_pinned(&self, device: Ordinal, size: usize) -> Result<*mut c_void> {
        if let Some(pool) = self.pool_for(MemoryKind::Host, device, size)? {
            return self.allocate_pooled(pool, device, size, None);
        }
        self.allocate(device, size, MemoryKind::Host, |backend| backend.malloc_host(device, size))
    }

    /// Frees device memory that is of no pool.
    #[cold]
    #[inline(never)]
    pub(super) fn free_unpooled(&self, pointer: *mut c_void) -> Result<()> {
        self.free(pointer, MemoryKind::Device, |backend, device| {
            // SAFETY: `free` claimed the block, so the backend made it and it is freed once.
            unsafe { backend.free_device(device, pointer) }
        })
    }

    fn allocate_for(
        &self,
        device: Ordinal,
        size: usize,
        kind: MemoryKind,
        stream: Option<(Stream, u64)>,
        call: impl Fn(&B) -> Result<*mut c_void>,
    ) -> Result<*mut c_void> {
        if !self.is_some_memory(device, size)? {
            return Ok(std::ptr::null_mut());
        }
        let pointer =
            self.ask_when_short(device, size, || self.try_allocate(device, size, kind, &call))?;
        let (base, owner) = (pointer as usize, self.device_type);
        let on_host = self.host_memory || kind != MemoryKind::Device;
        pointers::insert(Block { base, size, kind, owner, device, on_host, stream }).inspect_err(
            |_| {
                // The backend is not asked to free it: that would free the block that is in use.
                if let Ok(account) = self.accounts.device(device)
                    && kind != MemoryKind::Host
                {
                    account.freed(size as u64);
                }
            },
        )?;
        Ok(pointer)
    }

    /// Whether a size is more than nothing; an error for a device or a size that cannot be.
    pub(super) fn is_some_memory(&self, device: Ordinal, size: usize) -> Result<bool> {
        self.check_device(device)?;
        if size > isize::MAX as usize {
            let message = format!("{size} bytes were asked for; no address space is so large");
            return Err(Error::new(Status::OutOfMemory, message));
        }
        Ok(size != 0)
    }

    /// Tries to allocate, and again as long as the user's callback finds memory.
    pub(super) fn ask_when_short<T>(
        &self,
        device: Ordinal,
        size: usize,
        allocate: impl Fn() -> Result<T>,
    ) -> Result<T> {
        let mut tries = 0;
        loop {
            match allocate() {
                Err(error) if error.status() == Status::OutOfMemory => {
                    let again =
                        tries < CALLBACK_TRIES && self.accounts.ask(self.device_type, device, size);
                    if !again {
                        return Err(error);
                    }
                    tries += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Reserves in a device's account, or says what its limit is.
    pub(super) fn reserve(&self, account: &Account, device: Ordinal, size: usize) -> Result<()> {
        account.reserve(size as u64).map_err(|(used, limit)| {
            account.failed();
            let free = limit.saturating_sub(used);
            let message = format!(
                "{size} bytes were asked for; the limit of device {device} is {limit} bytes, \
                 {used} are used, {free} are free"
            );
            Error::new(Status::OutOfMemory, message)
        })
    }

    /// One try, and more after what is cached was given up (E4).
    fn try_allocate(
        &self,
        device: Ordinal,
        size: usize,
        kind: MemoryKind,
        call: &impl Fn(&B) -> Result<*mut c_void>,
    ) -> Result<*mut c_void> {
        if kind == MemoryKind::Host {
            // Where the pools' memory is the host's too, it is given up for this.
            return self.make_room_for(kind, device, size, || self.on(device, call));
        }
        let account = self.accounts.device(device)?;
        self.reserve(account, device, size)?;
        let outcome = self.make_room_for(kind, device, size, || self.on(device, call));
        match &outcome {
            Ok(_) => account.allocated(),
            Err(error) => {
                account.cancel(size as u64);
                if error.status() == Status::OutOfMemory {
                    account.failed();
                }
            }
        }
        outcome
    }

    /// Whether the backend could be asked to give its cache back.
    pub(super) fn trim_backend(&self, device: Ordinal) -> bool {
        self.has(Capabilities::MEMORY_POOL)
            && self.on(device, |backend| backend.trim_memory(device, 0)).is_ok()
    }

    /// Frees with `call` what `kind` says it is, on the device where it is. NULL is nothing (M1).
    pub(super) fn free(
        &self,
        pointer: *mut c_void,
        kind: MemoryKind,
        call: impl FnOnce(&B, Ordinal) -> Result<()>,
    ) -> Result<()> {
        if pointer.is_null() {
            return Ok(());
        }
        let block = pointers::claim(pointer as usize, kind, self.device_type)?;
        let freed = self.on(block.device, |backend| call(backend, block.device));
        match &freed {
            Err(error) if error.status() != Status::DeviceLost => {
                // A failed call changes nothing (house rule 5); only a lost device keeps its memory.
                // Nothing can lie there: the backend still has it.
                let _ = pointers::insert(block);
            }
            _ => self.settle(&block)?,
        }
        freed
    }

    /// Takes a block out of the accounts it is in.
    fn settle(&self, block: &Block) -> Result<()> {
        if matches!(block.kind, MemoryKind::Host | MemoryKind::Registered) {
            return Ok(());
        }
        self.accounts.device(block.device)?.freed(block.size as u64);
        match block.stream {
            None => Ok(()),
            Some(of) => self.settle_stream(block.device, of, block.size),
        }
    }

    /// Takes a block out of the account of the stream that it was allocated on.
    pub(super) fn settle_stream(
        &self,
        device: Ordinal,
        (stream, serial): (Stream, u64),
        size: usize,
    ) -> Result<()> {
        if stream.is_default() {
            self.accounts.default_stream(device)?.freed(size as u64);
        } else if let Ok(Entered { stream: Some(held), .. }) = &self.enter(device, stream)
            // A stream that is gone has taken its account with it, also when its handle came back.
            && held.live().serial == serial
        {
            held.live().account.freed(size as u64);
        }
        Ok(())
    }

    pub(super) fn allocate_on_stream(
        &self,
        device: Ordinal,
        size: usize,
        stream: Stream,
    ) -> Result<*mut c_void> {
        let entered = self.enter(device, stream)?;
        let device = entered.device;
        let native = self.has(Capabilities::STREAM_ORDERED_MEMORY);
        let key = (stream, entered.serial());
        if let Some(held) = &entered.stream
            && let Some(pool) = self.pools.get(device)
        {
            self.lost.check(device)?;
            if let Some(pointer) = pool.take_on(key, size) {
                held.live().account.add_allocated(size as u64);
                return Ok(pointer);
            }
        }
        let pointer = if let Some(pool) = self.pool_for(MemoryKind::Device, device, size)? {
            self.allocate_pooled(pool, device, size, Some(key))?
        } else {
            self.allocate_for(device, size, MemoryKind::Device, Some(key), |backend| {
                if native {
                    // SAFETY: `entered` keeps the stream alive, and it is on this device.
                    unsafe { backend.malloc_async(device, size, stream) }
                } else {
                    backend.malloc_device(device, size)
                }
            })?
        };
        if !pointer.is_null() {
            let count = |account: &Account| {
                // A stream has no limit of its own.
                let _ = account.reserve(size as u64);
                account.allocated();
            };
            match &entered.stream {
                Some(held) => count(&held.live().account),
                None => count(self.accounts.default_stream(device)?),
            }
        }
        Ok(pointer)
    }

    pub(super) fn free_on_stream(
        &self,
        device: Ordinal,
        pointer: *mut c_void,
        stream: Stream,
    ) -> Result<()> {
        let entered = self.enter(device, stream)?;
        let on_another = |device: Ordinal| {
            let there = entered.device;
            let message =
                format!("{pointer:p} is on device {device}, the stream is of device {there}");
            Err(Error::new(Status::InvalidValue, message))
        };
        if let Some(freed) = self.claim_pooled(pointer, About::DEVICE) {
            if freed.device != entered.device {
                freed.block.hand_out(freed.size);
                return on_another(freed.device);
            }
            return self.free_pooled_on(freed, &entered, stream);
        }
        if let Some(block) = pointers::find(pointer as usize)
            && block.device != entered.device
        {
            return on_another(block.device);
        }
        let native = self.has(Capabilities::STREAM_ORDERED_MEMORY);
        self.free(pointer, MemoryKind::Device, |backend, device| {
            if native {
                // SAFETY: `free` claimed the block; `entered` keeps the stream alive, on its device.
                unsafe { backend.free_async(device, pointer, stream) }
            } else {
                // SAFETY: `free` claimed the block. M4 makes this at least as late as the stream.
                unsafe { backend.free_device(device, pointer) }
            }
        })
    }

    /// # Safety
    /// - The range is mapped memory of this process and stays so until it is unregistered.
    pub(super) unsafe fn register(
        &self,
        device: Ordinal,
        pointer: *mut c_void,
        size: usize,
    ) -> Result<()> {
        self.check_device(device)?;
        if !self.has(Capabilities::HOST_REGISTRATION) {
            return Err(not_supported("register_host"));
        }
        let base = pointer as usize;
        if base == 0 || size == 0 || size > isize::MAX as usize || base.checked_add(size).is_none()
        {
            let message =
                format!("{size} bytes at {pointer:p} are no memory that can be registered");
            return Err(Error::new(Status::InvalidValue, message));
        }
        let owner = self.device_type;
        let kind = MemoryKind::Registered;
        let block = Block { base, size, kind, owner, device, on_host: true, stream: None };
        pointers::insert_foreign(block)?;
        // SAFETY: the caller keeps `register_host`'s contract.
        self.on(device, |backend| unsafe { backend.register_host(device, pointer, size) })
            .inspect_err(|_| {
                // Nobody else can have claimed it: the caller does not know yet that it is there.
                let _ = pointers::claim(base, kind, owner);
            })
    }

    pub(super) fn attributes(&self, address: usize) -> Result<LlaisysPointerAttributes> {
        if let Some(block) = pointers::find(address) {
            let kind = match block.kind {
                MemoryKind::Device => MEMORY_DEVICE,
                MemoryKind::Host => MEMORY_PINNED,
                MemoryKind::Managed => MEMORY_MANAGED,
                MemoryKind::Registered => MEMORY_REGISTERED,
            };
            return Ok(LlaisysPointerAttributes {
                kind,
                device_type: block.owner,
                device: block.device,
                base: block.base as u64,
                size: block.size as u64,
                ours: 1,
                ..LlaisysPointerAttributes::pageable()
            });
        }
        if address == 0 || !self.has(Capabilities::POINTER_QUERY) {
            return Ok(LlaisysPointerAttributes::pageable());
        }
        let mut found = self.backend.get_pointer_attributes(address)?;
        if found.kind != MEMORY_PAGEABLE {
            found.device_type = self.device_type;
        }
        found.ours = 0;
        Ok(found)
    }

    /// The device of a block of device memory.
    pub(super) fn device_of(&self, pointer: *const c_void) -> Option<Ordinal> {
        pointers::find(pointer as usize)
            .filter(|block| block.owner == self.device_type && block.kind == MemoryKind::Device)
            .map(|block| block.device)
    }

    pub(super) fn check_managed_range(&self, pointer: *mut c_void, size: usize) -> Result<()> {
        let address = pointer as usize;
        match pointers::find(address) {
            Some(block)
                if block.kind == MemoryKind::Managed
                    && block.owner == self.device_type
                    && block.holds(address, size) =>
            {
                Ok(())
            }
            _ => {
                let message = format!(
                    "{size} bytes at {pointer:p} are not inside one block of managed memory"
                );
                Err(Error::new(Status::InvalidValue, message))
            }
        }
    }

    pub(super) fn check_location(&self, location: i32) -> Result<()> {
        if location == LOCATION_HOST { Ok(()) } else { self.check_device(location) }
    }
}
