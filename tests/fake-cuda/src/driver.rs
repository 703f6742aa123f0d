//! The one state of the process, its lock, and how a thread waits for it to change.
//!
//! One lock guards everything but the bytes: work is done outside it. `progress` is signalled when an
//! operation is over, `room` when a full queue has room again, `jobs` when a stream became ready. The
//! rule: nothing here is ever torn down; at the end of the process the workers simply end with it.

use crate::arena::Arena;
use crate::contexts::{Context, Primary};
use crate::devices::{self, Device};
use crate::errors::{Answer, DEINITIALIZED, INVALID_VALUE, NOT_INITIALIZED};
use crate::events::Event;
use crate::handles::{Handle, Handles};
use crate::memory::Block;
use crate::pools::Pool;
use crate::settings::{self, Settings};
use crate::streams::{Point, Stream, StreamKey};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The state of an initialised driver.
pub struct Driver {
    pub settings: Settings,
    pub devices: Vec<Device>,
    pub world: Mutex<World>,
    pub progress: Condvar,
    pub room: Condvar,
    pub jobs: Condvar,
}

/// Everything that changes.
pub struct World {
    pub handles: Handles,
    pub contexts: HashMap<Handle, Context>,
    pub primaries: Vec<Primary>,
    pub streams: HashMap<StreamKey, Stream>,
    pub stream_handles: HashMap<Handle, StreamKey>,
    pub per_thread: HashMap<(u64, Handle), StreamKey>,
    pub events: HashMap<Handle, Event>,
    pub memory: BTreeMap<usize, Block>,
    pub pools: HashMap<Handle, Pool>,
    /// The code of the first fatal fault: no context can be made in this process any more.
    pub lost: Option<i32>,
    pub contained_faults: bool,
    pub ready: VecDeque<StreamKey>,
    pub idle_workers: usize,
    pub workers: usize,
    /// The last copy of each hardware queue: of a context, by number, to the device or from it.
    pub copy_queues: HashMap<(Handle, u64, bool), Point>,
    pub streams_made: u64,
    next_number: u64,
}

/// The lock, held.
pub type Guard = MutexGuard<'static, World>;

impl World {
    /// A number that no other thing has.
    pub fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}

impl Driver {
    pub fn lock(&'static self) -> Guard {
        self.world.lock()
    }

    /// Waits until something holds.
    pub fn wait(&self, world: &mut Guard, mut holds: impl FnMut(&mut World) -> bool) {
        while !holds(world) {
            self.progress.wait(world);
        }
    }

    pub fn device(&self, ordinal: i32) -> Answer<(usize, &Device)> {
        let index = usize::try_from(ordinal).map_err(|_| crate::errors::INVALID_DEVICE)?;
        self.devices.get(index).map(|device| (index, device)).ok_or(crate::errors::INVALID_DEVICE)
    }
}

static DRIVER: OnceLock<Driver> = OnceLock::new();

/// Who initialised the driver.
///
/// | value | meaning | a call answers |
/// |---|---|---|
/// | 0 | nobody yet | NOT_INITIALIZED |
/// | this process | this process | what it answers |
/// | another process | the process that this one was forked from | NOT_INITIALIZED, also from `cuInit` |
static INITIALISED_BY: AtomicI32 = AtomicI32::new(0);

/// Whether the exit handlers have run, where the environment wants that to be seen.
static EXITED: AtomicBool = AtomicBool::new(false);

static FIRST_INIT: Mutex<()> = Mutex::new(());

/// Whether this process was forked from one that had initialised the driver.
pub fn is_forked() -> bool {
    !matches!(INITIALISED_BY.load(Ordering::Acquire), 0)
        && INITIALISED_BY.load(Ordering::Acquire) != process()
}

fn process() -> i32 {
    std::process::id() as i32
}

/// The initialised driver.
pub fn driver() -> Answer<&'static Driver> {
    if EXITED.load(Ordering::Relaxed) {
        return Err(DEINITIALIZED);
    }
    if INITIALISED_BY.load(Ordering::Acquire) != process() {
        return Err(NOT_INITIALIZED);
    }
    DRIVER.get().ok_or(NOT_INITIALIZED)
}

/// `cuInit`.
pub fn initialise(flags: u32) -> Answer {
    if is_forked() {
        return Err(NOT_INITIALIZED);
    }
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    if let Some(code) = settings::init_error() {
        return Err(code);
    }
    let _once = FIRST_INIT.lock();
    if DRIVER.get().is_some() {
        return Ok(());
    }
    let settings = Settings::read();
    let devices: Vec<Device> = devices::visible(settings.devices)?
        .into_iter()
        .map(|number| Device { number, arena: Arena::new(settings.device_memory) })
        .collect();
    let mut world = World {
        handles: Handles::new(settings.reuse_handles),
        contexts: HashMap::new(),
        primaries: Vec::new(),
        streams: HashMap::new(),
        stream_handles: HashMap::new(),
        per_thread: HashMap::new(),
        events: HashMap::new(),
        memory: BTreeMap::new(),
        pools: HashMap::new(),
        lost: None,
        contained_faults: settings.contained_faults,
        ready: VecDeque::new(),
        idle_workers: 0,
        workers: 0,
        copy_queues: HashMap::new(),
        streams_made: 0,
        next_number: 0,
    };
    for device in 0..devices.len() {
        let default_pool = world.make_pool(device);
        let handle = world.handles.give();
        world.primaries.push(Primary {
            handle,
            retained: 0,
            flags: 0,
            default_pool,
            pool: default_pool,
        });
    }
    if settings.deinitialized_at_exit {
        extern "C" fn exited() {
            EXITED.store(true, Ordering::Relaxed);
        }
        // SAFETY: the handler only stores to a static, and the library is never unloaded (build.rs).
        unsafe { libc::atexit(exited) };
    }
    let (progress, room, jobs) = (Condvar::new(), Condvar::new(), Condvar::new());
    DRIVER.get_or_init(|| Driver {
        settings,
        devices,
        world: Mutex::new(world),
        progress,
        room,
        jobs,
    });
    INITIALISED_BY.store(process(), Ordering::Release);
    Ok(())
}
