//! What belongs together: the devices, their memory and the staging buffers of one [`Cpu`].
//!
//! Rules: an engine lives as long as the process, because its threads are never joined and frees may
//! come from the last destructor (contract L1). It is told about every fork before anyone can use
//! it: in the child, what was allocated stays, streams stay and are empty, and workers start anew
//! (L2).
//!
//! [`Cpu`]: crate::Cpu

use crate::blocks::Place;
use crate::configuration::Configuration;
use crate::device::Device;
use crate::host_call;
use crate::memory::Memory;
use crate::pool::Pool;
use crate::position::Position;
use crate::staging::Staging;
use llaisys_runtime_core::api::{Ordinal, Stream};
use llaisys_runtime_core::fork::{self, ForkAware};
use llaisys_runtime_core::{Error, Result, Status};
use std::ffi::c_void;

/// The inside of a [`Cpu`](crate::Cpu).
pub struct Engine {
    /// How it was set up.
    pub configuration: Configuration,
    /// The memory of all devices.
    pub memory: &'static Memory,
    /// The buffers for pageable sources.
    pub staging: Staging,
    /// Who runs the work of all devices.
    pub pool: &'static Pool,
    devices: Box<[Device]>,
}

impl Engine {
    /// Sets one up for the rest of the process, known to `fork`.
    pub fn leak(configuration: Configuration) -> &'static Engine {
        let memory: &'static Memory =
            Box::leak(Box::new(Memory::new(configuration.memory_limit, configuration.strict)));
        let pool: &'static Pool = Box::leak(Box::new(Pool::new(
            configuration.worker_name.clone(),
            configuration.threads,
            configuration.worker_idle,
            configuration.schedule_seed,
        )));
        let devices = (0..configuration.devices.clamp(1, 256))
            .map(|ordinal| Device::new(ordinal, pool, memory, &configuration))
            .collect();
        let staging = Staging::new(configuration.staging_bytes);
        let engine: &'static Engine =
            Box::leak(Box::new(Engine { configuration, memory, staging, pool, devices }));
        fork::register(engine);
        engine
    }

    /// How many devices there are.
    #[inline]
    pub fn device_count(&self) -> i32 {
        self.devices.len() as i32
    }

    /// A device.
    ///
    /// # Errors
    /// `INVALID_DEVICE` for a number that is none.
    #[inline(always)]
    pub fn device(&'static self, ordinal: Ordinal) -> Result<&'static Device> {
        // A negative number is beyond every index too.
        self.devices.get(ordinal as usize).ok_or_else(|| self.no_device(ordinal))
    }

    #[cold]
    fn no_device(&self, ordinal: Ordinal) -> Error {
        let message = format!("CPU device {ordinal} of {}", self.device_count());
        Error::new(Status::InvalidDevice, message)
    }

    /// Allocates; 0 bytes are NULL (M1).
    ///
    /// # Errors
    /// As `Memory::allocate`.
    pub fn allocate(&self, device: Ordinal, place: Place, size: usize) -> Result<*mut c_void> {
        if size == 0 { Ok(std::ptr::null_mut()) } else { self.memory.allocate(device, place, size) }
    }

    /// Frees a block once the work that is pending now, on any stream of any device, is done. NULL is
    /// nothing to free (M1).
    ///
    /// # Errors
    /// `INVALID_VALUE` for what is no block of this place.
    pub fn free(&self, place: Place, pointer: *mut c_void) -> Result<()> {
        if pointer.is_null() {
            return Ok(());
        }
        let block = self.memory.take(place, pointer)?;
        let mut pending: Vec<Position> = Vec::new();
        self.devices.iter().for_each(|device| device.busy(|position| pending.push(position)));
        self.memory.give_back(block, None, pending);
        Ok(())
    }

    /// Frees a block of device memory in the order of a stream: once the work is done that new work
    /// on the stream would come after now (M7). NULL is nothing to free (M1).
    ///
    /// # Errors
    /// `INVALID_HANDLE`; `INVALID_VALUE` for what is no block of the device. Then nothing changes.
    pub fn free_in_order(
        &'static self,
        device: Ordinal,
        pointer: *mut c_void,
        stream: Stream,
    ) -> Result<()> {
        let (queue, pending) = self.device(device)?.before_next(stream)?;
        if pointer.is_null() {
            return Ok(());
        }
        let block = self.memory.take(Place::Device(device), pointer)?;
        self.memory.give_back(block, Some(queue), pending);
        Ok(())
    }
}

impl ForkAware for Engine {
    fn prepare(&self) {
        self.devices.iter().for_each(Device::hold);
        self.pool.hold();
        self.memory.hold();
    }

    fn parent(&self) {
        // SAFETY: held by `prepare`, on this same thread.
        unsafe {
            self.memory.release();
            self.pool.release();
        }
        for device in &self.devices {
            // SAFETY: as above.
            unsafe { device.release() };
        }
    }

    fn child(&self) {
        // Here too releasing is enough: see `lock`.
        self.parent();
        host_call::forget();
        self.pool.forget();
        self.devices.iter().for_each(Device::forget_threads);
        self.staging.forget();
        self.memory.forget_threads();
    }
}
