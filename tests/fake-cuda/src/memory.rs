//! Memory that the driver knows: of devices and of the host.
//!
//! The rule: a call's ranges are checked when it is made, against what is allocated then; an operation
//! checks again when it runs that the memory has come to life and has not ended. What fails there is an
//! illegal address, which breaks the context, as it would on a device.

use crate::arena::Chunk;
use crate::contexts;
use crate::driver::{Driver, Guard, World};
use crate::entry::Here;
use crate::errors::{Answer, CONTEXT_IS_DESTROYED, ILLEGAL_ADDRESS, INVALID_VALUE, OUT_OF_MEMORY};
use crate::handles::Handle;
use crate::managed::ManagedBlock;
use crate::pinned::{HostBlock, HostRange};
use crate::streams;
use crate::work::Work;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A range that the driver knows.
pub enum Block {
    Device(Arc<Allocation>),
    Host(HostRange),
}

impl Block {
    pub fn bytes(&self) -> usize {
        match self {
            Block::Device(allocation) => allocation.bytes,
            Block::Host(host) => host.bytes,
        }
    }
}

/// The life of an allocation.
///
/// | value | meaning | goes to |
/// |---|---|---|
/// | UNBORN | its stream has not come to the allocation | ALIVE, by the stream |
/// | ALIVE | operations may use it | ENDED, by a free |
/// | ENDED | an operation that uses it breaks its context | |
const UNBORN: u8 = 0;
const ALIVE: u8 = 1;
const ENDED: u8 = 2;

/// Device or managed memory that was allocated.
pub struct Allocation {
    pub user: usize,
    pub bytes: usize,
    pub device: usize,
    /// The context it ends with; memory of a pool has none.
    pub context: Option<Handle>,
    pub pool: Option<Handle>,
    pub number: u64,
    backing: Backing,
    state: AtomicU8,
}

/// Where the bytes of an allocation are.
enum Backing {
    Chunk(Arc<Chunk>),
    Managed(ManagedBlock),
}

impl Allocation {
    /// Memory of a pool, which its stream brings to life.
    pub fn of_pool(
        chunk: Arc<Chunk>,
        offset: usize,
        bytes: usize,
        device: usize,
        pool: Handle,
        number: u64,
    ) -> Allocation {
        let (user, state) = (chunk.user() + offset, AtomicU8::new(UNBORN));
        let backing = Backing::Chunk(chunk);
        Allocation { user, bytes, device, context: None, pool: Some(pool), number, backing, state }
    }

    /// Managed memory, which is there at once.
    pub fn of_managed(
        block: ManagedBlock,
        bytes: usize,
        device: usize,
        context: Handle,
        number: u64,
    ) -> Allocation {
        let (user, state) = (block.at(), AtomicU8::new(ALIVE));
        let (context, backing) = (Some(context), Backing::Managed(block));
        Allocation { user, bytes, device, context, pool: None, number, backing, state }
    }

    /// The block, where the memory is managed.
    pub fn managed(&self) -> Option<&ManagedBlock> {
        match &self.backing {
            Backing::Managed(block) => Some(block),
            Backing::Chunk(_) => None,
        }
    }

    pub fn begin(&self) {
        self.state.store(ALIVE, Ordering::Release);
    }

    pub fn end(&self) {
        self.state.store(ENDED, Ordering::Release);
        if let (Some(_), Backing::Chunk(chunk)) = (self.pool, &self.backing) {
            chunk.discard(self.user - chunk.user(), self.bytes);
        }
    }

    fn is_alive(&self) -> bool {
        self.state.load(Ordering::Acquire) == ALIVE
    }

    /// Where the byte at a device pointer is.
    fn driver_address(&self, pointer: usize) -> usize {
        match &self.backing {
            Backing::Chunk(chunk) => chunk.driver() + (pointer - chunk.user()),
            Backing::Managed(_) => pointer,
        }
    }
}

/// Where an operation reads or writes.
pub struct Place {
    pub at: usize,
    pub home: Home,
}

/// What kind of memory a place is in; it is kept mapped for as long as the place is.
pub enum Home {
    Device(Arc<Allocation>),
    Pinned(#[expect(dead_code, reason = "held so that the memory stays")] Option<Arc<HostBlock>>),
    Pageable,
    Staged(#[expect(dead_code, reason = "held so that the memory stays")] Box<[u8]>),
}

impl Place {
    /// Refuses memory that is not there when an operation comes to it.
    pub fn check(&self) -> Answer {
        match &self.home {
            Home::Device(allocation) if !allocation.is_alive() => Err(ILLEGAL_ADDRESS),
            _ => Ok(()),
        }
    }

    pub fn is_device(&self) -> bool {
        matches!(self.home, Home::Device(_))
    }

    pub fn is_pageable(&self) -> bool {
        matches!(self.home, Home::Pageable)
    }
}

impl World {
    /// The known range that an address is in, and its start.
    pub fn block_at(&self, address: usize) -> Option<(usize, &Block)> {
        let (start, block) = self.memory.range(..=address).next_back()?;
        (address - start < block.bytes()).then_some((*start, block))
    }

    /// A place of so many bytes. Memory that the driver does not know is the process's own, which `known`
    /// refuses.
    pub fn place(&self, address: usize, bytes: usize, known: bool) -> Answer<Place> {
        let end = address.checked_add(bytes).ok_or(INVALID_VALUE)?;
        let Some((start, block)) = self.block_at(address) else {
            let pageable = !known && address != 0;
            return if pageable {
                Ok(Place { at: address, home: Home::Pageable })
            } else {
                Err(INVALID_VALUE)
            };
        };
        if end > start + block.bytes() {
            return Err(INVALID_VALUE);
        }
        Ok(match block {
            Block::Device(a) => {
                Place { at: a.driver_address(address), home: Home::Device(Arc::clone(a)) }
            }
            Block::Host(host) => Place { at: address, home: Home::Pinned(host.block.clone()) },
        })
    }

    /// Whether streams of a context may use memory. Memory of a pool is shut to other devices unless the
    /// pool is opened to them; other memory only where `strict`, unless peer access is enabled.
    pub fn may_reach(&self, context: Handle, place: &Place, strict: bool) -> Answer {
        let Home::Device(allocation) = &place.home else { return Ok(()) };
        let Some(here) = self.contexts.get(&context) else { return Err(CONTEXT_IS_DESTROYED) };
        let open = match allocation.pool {
            _ if allocation.device == here.device || allocation.managed().is_some() => true,
            Some(pool) => {
                self.pools.get(&pool).is_some_and(|pool| pool.access.contains(&here.device))
            }
            None => {
                !strict || here.peers.iter().any(|peer| self.device_of(*peer) == allocation.device)
            }
        };
        if open { Ok(()) } else { Err(INVALID_VALUE) }
    }
}

/// `cuMemAlloc`.
pub fn allocate(here: Here, bytes: usize) -> Answer<usize> {
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    let mut world = here.driver.lock();
    let device = world.contexts.get(&here.context).ok_or(CONTEXT_IS_DESTROYED)?.device;
    let chunk = Arc::new(here.driver.devices[device].arena.take(bytes).ok_or(OUT_OF_MEMORY)?);
    let (user, number) = (chunk.user(), world.number());
    let context = Some(here.context);
    let (backing, state) = (Backing::Chunk(chunk), AtomicU8::new(ALIVE));
    let allocation =
        Allocation { user, bytes, device, context, pool: None, number, backing, state };
    world.memory.insert(user, Block::Device(Arc::new(allocation)));
    Ok(user)
}

/// The allocation that begins at a pointer.
fn beginning_at(world: &Guard, pointer: usize) -> Answer<Arc<Allocation>> {
    match world.memory.get(&pointer) {
        Some(Block::Device(allocation)) => Ok(Arc::clone(allocation)),
        _ => Err(INVALID_VALUE),
    }
}

/// `cuMemFree`: waits for the context that the memory is of. Memory of a pool goes at once.
pub fn free(driver: &'static Driver, pointer: usize) -> Answer {
    let mut world = driver.lock();
    if contexts::current() != 0 {
        contexts::usable(&world, contexts::current())?;
    }
    if pointer == 0 {
        return Ok(());
    }
    let allocation = beginning_at(&world, pointer)?;
    if let Some(context) = allocation.context {
        let points = world.work_of(context);
        streams::wait_for(driver, &mut world, context, &points)?;
        // Another thread may have freed it during the wait.
        if !Arc::ptr_eq(&allocation, &beginning_at(&world, pointer)?) {
            return Err(INVALID_VALUE);
        }
    }
    world.memory.remove(&pointer);
    allocation.end();
    world.give_back_to_pool(&allocation, None);
    Ok(())
}

/// `cuMemFreeAsync`: the memory is nobody's from now on, and ends when the stream comes to it.
pub fn free_async(driver: &'static Driver, pointer: usize, stream: Handle) -> Answer {
    let (mut world, key) = streams::find(driver, stream)?;
    if pointer == 0 {
        return Ok(());
    }
    let allocation = beginning_at(&world, pointer)?;
    if allocation.managed().is_some() {
        return Err(INVALID_VALUE);
    }
    world.memory.remove(&pointer);
    let death = Work::Death(Arc::clone(&allocation));
    let point = streams::give(driver, &mut world, key, death, Vec::new())?;
    world.give_back_to_pool(&allocation, Some(point));
    Ok(())
}

/// `cuMemGetInfo`: free and total.
pub fn info(here: Here) -> Answer<(usize, usize)> {
    let device = here.driver.lock().device_of(here.context);
    let (total, free) = here.driver.devices[device].arena.sizes();
    Ok((free, total))
}

/// `cuMemGetAddressRange`: start and size.
pub fn range(here: Here, pointer: usize) -> Answer<(usize, usize)> {
    let world = here.driver.lock();
    let (start, block) = world.block_at(pointer).ok_or(crate::errors::NOT_FOUND)?;
    Ok((start, block.bytes()))
}
