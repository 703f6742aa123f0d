//! Pools: stream-ordered memory.
//!
//! A pool holds segments of 32 MiB or more of a device, and knows their free pieces; a piece that a stream
//! has not come to free yet carries that point. The rule: a piece goes to the stream that freed it at
//! once, to any other only when it is free, or, when there is no other memory, after that point.

use crate::arena::{ALIGNMENT, Chunk, join};
use crate::driver::{Driver, Guard, World};
use crate::errors::{Answer, CONTEXT_IS_DESTROYED, INVALID_DEVICE, INVALID_VALUE, OUT_OF_MEMORY};
use crate::handles::{Gone, Handle};
use crate::memory::{Allocation, Block};
use crate::streams::{self, Point, StreamKey};
use crate::work::Work;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

const SEGMENT: usize = 32 << 20;

/// A pool.
pub struct Pool {
    pub device: usize,
    is_default: bool,
    segments: Vec<Segment>,
    /// Follow events, opportunistic, internal dependencies.
    reuse: [bool; 3],
    threshold: u64,
    reserved: u64,
    reserved_high: u64,
    used: u64,
    used_high: u64,
    pub access: HashSet<usize>,
    destroyed: bool,
}

struct Segment {
    chunk: Arc<Chunk>,
    length: usize,
    /// Free pieces: offset → length, and the point where they are free.
    pieces: BTreeMap<usize, (usize, Option<Point>)>,
}

/// A piece that was found: segment, offset, and the point that its use has to come after.
type Found = (usize, usize, Option<Point>);

impl World {
    pub fn make_pool(&mut self, device: usize) -> Handle {
        let handle = self.handles.give();
        let pool = Pool {
            device,
            is_default: self.primaries.len() == device,
            segments: Vec::new(),
            reuse: [true; 3],
            threshold: 0,
            reserved: 0,
            reserved_high: 0,
            used: 0,
            used_high: 0,
            access: HashSet::from([device]),
            destroyed: false,
        };
        self.pools.insert(handle, pool);
        handle
    }

    /// A pool that a call may name.
    pub fn pool(&mut self, handle: Handle) -> Answer<&mut Pool> {
        self.pools.get_mut(&handle).filter(|pool| !pool.destroyed).ok_or(INVALID_VALUE)
    }

    /// A piece that a stream may have now.
    fn find_piece(&self, pool: &Pool, length: usize, key: StreamKey) -> Option<Found> {
        let mut best: Option<(usize, Found)> = None;
        for (index, segment) in pool.segments.iter().enumerate() {
            for (offset, (free, point)) in &segment.pieces {
                let ours = point
                    .is_none_or(|point| point.0 == key || (pool.reuse[1] && self.reached(point)));
                if *free >= length && ours && best.is_none_or(|(least, _)| *free < least) {
                    best = Some((*free, (index, *offset, None)));
                }
            }
        }
        best.map(|(_, found)| found)
    }

    /// Forgets the points that are reached and joins what lies side by side.
    fn settle(&mut self, handle: Handle) {
        let Some(mut pool) = self.pools.remove(&handle) else { return };
        for segment in &mut pool.segments {
            let (mut free, mut pending) = (BTreeMap::new(), BTreeMap::new());
            for (offset, (length, point)) in &segment.pieces {
                match point {
                    Some(point) if !self.reached(*point) => {
                        pending.insert(*offset, (*length, Some(*point)));
                    }
                    _ => join(&mut free, *offset, *length),
                }
            }
            pending.extend(free.into_iter().map(|(offset, length)| (offset, (length, None))));
            segment.pieces = pending;
        }
        self.pools.insert(handle, pool);
    }

    /// Gives segments that are wholly free back to the device; at least so many bytes are kept.
    fn trim(&mut self, handle: Handle, keep: u64) {
        self.settle(handle);
        let Some(pool) = self.pools.get_mut(&handle) else { return };
        let mut reserved = pool.reserved;
        pool.segments.retain(|segment| {
            let free = segment.pieces.get(&0) == Some(&(segment.length, None));
            let goes = free && reserved.saturating_sub(segment.length as u64) >= keep;
            reserved -= if goes { segment.length as u64 } else { 0 };
            !goes
        });
        pool.reserved = reserved;
        if pool.destroyed && pool.segments.is_empty() {
            self.pools.remove(&handle);
        }
    }

    /// What a synchronization does to pools.
    pub fn trim_pools(&mut self) {
        let pools: Vec<(Handle, u64)> =
            self.pools.iter().map(|(handle, pool)| (*handle, pool.threshold)).collect();
        for (handle, threshold) in pools {
            if self.pools.get(&handle).is_some_and(|pool| pool.reserved > threshold) {
                self.trim(handle, threshold);
            }
        }
    }

    /// Memory goes back to the pool that it is of: free now, or at a point.
    pub fn give_back_to_pool(&mut self, allocation: &Allocation, point: Option<Point>) {
        let Some(pool) = allocation.pool.and_then(|pool| self.pools.get_mut(&pool)) else { return };
        pool.used -= allocation.bytes as u64;
        for segment in &mut pool.segments {
            let start = segment.chunk.user();
            if (start..start + segment.length).contains(&allocation.user) {
                let length = allocation.bytes.next_multiple_of(ALIGNMENT);
                segment.pieces.insert(allocation.user - start, (length, point));
            }
        }
    }
}

/// `cuMemAllocFromPoolAsync`; without a pool, from the current one of the stream's device.
pub fn allocate(
    driver: &'static Driver,
    bytes: usize,
    pool: Option<Handle>,
    stream: Handle,
) -> Answer<usize> {
    let (mut world, key) = streams::find(driver, stream)?;
    let context = world.streams.get(&key).ok_or(CONTEXT_IS_DESTROYED)?.context;
    let current = world.primaries[world.device_of(context)].pool;
    let handle = pool.unwrap_or(current);
    let device = world.pool(handle)?.device;
    if bytes == 0 {
        return Ok(0);
    }
    let length = bytes.checked_next_multiple_of(ALIGNMENT).ok_or(OUT_OF_MEMORY)?;
    let (index, offset, after) = take(driver, &mut world, handle, length, key)?;
    let number = world.number();
    let pool = world.pool(handle)?;
    let segment = &mut pool.segments[index];
    if let Some((free, point)) = segment.pieces.remove(&offset)
        && free > length
    {
        segment.pieces.insert(offset + length, (free - length, point));
    }
    pool.used += bytes as u64;
    pool.used_high = pool.used_high.max(pool.used);
    let allocation = Arc::new(Allocation::of_pool(
        Arc::clone(&segment.chunk),
        offset,
        bytes,
        device,
        handle,
        number,
    ));
    let user = allocation.user;
    world.memory.insert(user, Block::Device(Arc::clone(&allocation)));
    streams::give(driver, &mut world, key, Work::Birth(allocation), after.into_iter().collect())?;
    Ok(user)
}

fn take(
    driver: &'static Driver,
    world: &mut Guard,
    handle: Handle,
    length: usize,
    key: StreamKey,
) -> Answer<Found> {
    if let Some(found) =
        world.pools.get(&handle).and_then(|pool| world.find_piece(pool, length, key))
    {
        return Ok(found);
    }
    world.settle(handle);
    if let Some(found) =
        world.pools.get(&handle).and_then(|pool| world.find_piece(pool, length, key))
    {
        return Ok(found);
    }
    let whole = length.checked_next_multiple_of(SEGMENT).ok_or(OUT_OF_MEMORY)?;
    let arena = &driver.devices[world.pool(handle)?.device].arena;
    let chunk = arena.take(whole).or_else(|| {
        world.trim(handle, 0);
        arena.take(whole)
    });
    let pool = world.pool(handle)?;
    if let Some(chunk) = chunk {
        let pieces = BTreeMap::from([(0, (whole, None))]);
        pool.segments.push(Segment { chunk: Arc::new(chunk), length: whole, pieces });
        pool.reserved += whole as u64;
        pool.reserved_high = pool.reserved_high.max(pool.reserved);
        return Ok((pool.segments.len() - 1, 0, None));
    }
    let mut pending =
        pool.segments.iter().enumerate().filter(|_| pool.reuse[2]).flat_map(|(index, segment)| {
            segment
                .pieces
                .iter()
                .map(move |(offset, (free, point))| (*free, (index, *offset, *point)))
        });
    pending.find(|(free, _)| *free >= length).map(|(_, found)| found).ok_or(OUT_OF_MEMORY)
}

/// `cuMemPoolTrimTo`.
pub fn trim_to(driver: &'static Driver, handle: Handle, keep: usize) -> Answer {
    let mut world = driver.lock();
    world.pool(handle)?;
    world.trim(handle, keep as u64);
    Ok(())
}

/// `cuMemPoolCreate`, of pinned memory of a device.
pub fn create(driver: &'static Driver, kind: i32, location: i32, device: i32) -> Answer<Handle> {
    let device = driver.device(device).map_err(|_| INVALID_VALUE)?.0;
    if kind != 1 || location != 1 {
        return Err(INVALID_VALUE);
    }
    Ok(driver.lock().make_pool(device))
}

/// `cuMemPoolDestroy`: memory that is in use stays until it is freed.
pub fn destroy(driver: &'static Driver, handle: Handle) -> Answer {
    let mut world = driver.lock();
    let pool = world.pool(handle)?;
    if pool.is_default {
        return Err(INVALID_VALUE);
    }
    pool.destroyed = true;
    pool.threshold = 0;
    for primary in &mut world.primaries {
        if primary.pool == handle {
            primary.pool = primary.default_pool;
        }
    }
    world.trim(handle, 0);
    world.handles.retire(handle, Gone::WithItsContext);
    Ok(())
}

/// `cuDeviceSetMemPool`.
pub fn set_current(driver: &'static Driver, device: usize, handle: Handle) -> Answer {
    let mut world = driver.lock();
    if world.pool(handle)?.device != device {
        return Err(INVALID_VALUE);
    }
    world.primaries[device].pool = handle;
    Ok(())
}

/// An attribute: a flag for the first three, a number of bytes for the others.
pub fn attribute(driver: &'static Driver, handle: Handle, attribute: i32) -> Answer<u64> {
    let mut world = driver.lock();
    let pool = world.pool(handle)?;
    Ok(match attribute {
        1..=3 => u64::from(pool.reuse[attribute as usize - 1]),
        4 => pool.threshold,
        5 => pool.reserved,
        6 => pool.reserved_high,
        7 => pool.used,
        8 => pool.used_high,
        _ => return Err(INVALID_VALUE),
    })
}

/// Sets an attribute; the high marks can only be set to 0, which is to what is so now.
pub fn set_attribute(
    driver: &'static Driver,
    handle: Handle,
    attribute: i32,
    value: u64,
) -> Answer {
    let mut world = driver.lock();
    let pool = world.pool(handle)?;
    match attribute {
        1..=3 => pool.reuse[attribute as usize - 1] = value != 0,
        4 => pool.threshold = value,
        6 if value == 0 => pool.reserved_high = pool.reserved,
        8 if value == 0 => pool.used_high = pool.used,
        _ => return Err(INVALID_VALUE),
    }
    Ok(())
}

/// `cuMemPoolSetAccess`, for one device.
pub fn set_access(driver: &'static Driver, handle: Handle, device: i32, flags: i32) -> Answer {
    let device = driver.device(device)?.0;
    let no_peer = driver.settings.no_peer;
    let mut world = driver.lock();
    let pool = world.pool(handle)?;
    match flags {
        3 if device == pool.device || !no_peer => drop(pool.access.insert(device)),
        0 if device != pool.device => drop(pool.access.remove(&device)),
        0 | 3 => return Err(INVALID_DEVICE),
        _ => return Err(INVALID_VALUE),
    }
    Ok(())
}
