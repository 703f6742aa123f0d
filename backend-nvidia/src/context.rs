//! The primary context of a device, and entering it for the length of one call.
//!
//! Rules: the primary context is shared with every other CUDA library of the process, so it is
//! retained at the first real use of its device and never reset or released (contract D7). A call
//! leaves the calling thread's current context as it found it; only `set_device` changes it.

use crate::call::cu;
use crate::device::Device;
use crate::driver::{Driver, driver};
use crate::errors::{self, SUCCESS};
use cust::sys::{CUcontext, CUdevice};
use llaisys_runtime_core::error::Result;
use std::marker::PhantomData;

/// A retained primary context.
#[derive(Clone, Copy)]
pub(crate) struct Context(CUcontext);

// SAFETY: a CUcontext is a handle that the driver lets every thread use; nothing is read through it
// here.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// The driver's handle.
    pub(crate) fn native(self) -> CUcontext {
        self.0
    }
}

/// The device's context is current on this thread while this lives.
#[must_use]
pub(crate) struct Entered {
    pushed: bool,
    /// What is current belongs to a thread.
    _this_thread: PhantomData<*const ()>,
}

impl Device {
    /// The device's context, retained by the first caller.
    #[inline]
    pub(crate) fn context(&self) -> Result<Context> {
        match self.context.get() {
            Some(context) => Ok(*context),
            None => self.retain(),
        }
    }

    #[cold]
    fn retain(&self) -> Result<Context> {
        let driver = driver()?;
        let _setup = driver.setup.lock();
        self.context
            .get_or_try_init(|| {
                let mut context: CUcontext = std::ptr::null_mut();
                // SAFETY: `context` is writable and the handle is the driver's own.
                let code = unsafe { cu!(cuDevicePrimaryCtxRetain(&mut context, self.handle)) };
                errors::check(code, || {
                    format!("retain the primary context of device {}", self.ordinal)
                })?;
                // From here on this device is in use: it may read the pools of those that are.
                for other in &driver.devices {
                    if let Some(Some(pool)) = other.pool.get() {
                        pool.admit(other, self);
                    }
                }
                Ok(Context(context))
            })
            .copied()
    }

    /// Makes the device's context current for as long as the result lives.
    #[inline]
    pub(crate) fn enter(&self) -> Result<Entered> {
        let Context(context) = self.context()?;
        let mut current: CUcontext = std::ptr::null_mut();
        // SAFETY: `current` is writable.
        let code = unsafe { cu!(cuCtxGetCurrent(&mut current)) };
        if code == SUCCESS && current == context {
            return Ok(Entered { pushed: false, _this_thread: PhantomData });
        }
        // SAFETY: a retained primary context that is never released.
        let code = unsafe { cu!(cuCtxPushCurrent_v2(context)) };
        errors::check(code, || format!("enter the context of device {}", self.ordinal))?;
        Ok(Entered { pushed: true, _this_thread: PhantomData })
    }

    /// Makes the device's context the calling thread's current one, for good.
    pub(crate) fn bind(&self) -> Result<()> {
        let Context(context) = self.context()?;
        // SAFETY: a retained primary context that is never released.
        let code = unsafe { cu!(cuCtxSetCurrent(context)) };
        errors::check(code, || format!("make the context of device {} current", self.ordinal))
    }
}

impl Driver {
    /// The device whose primary context this is; `None` when it is another context.
    pub(crate) fn device_of(&self, context: CUcontext) -> Result<Option<&Device>> {
        let holds = |device: &&Device| device.context.get().is_some_and(|ours| ours.0 == context);
        if let Some(device) = self.devices.iter().find(holds) {
            return Ok(Some(device));
        }
        let mut handle: CUdevice = -1;
        let mut ours: CUcontext = std::ptr::null_mut();
        // SAFETY: the context is live by the caller's word; what is pushed is popped on this thread,
        // and `handle` and `ours` are writable.
        let code = unsafe {
            match cu!(cuCtxPushCurrent_v2(context)) {
                SUCCESS => {
                    let code = cu!(cuCtxGetDevice(&mut handle));
                    let _the_answer_counts = cu!(cuCtxPopCurrent_v2(&mut ours));
                    code
                }
                code => code,
            }
        };
        errors::check(code, || format!("ask for the device of the context {context:p}"))?;
        let found = self.devices.iter().find(|device| device.handle == handle);
        // Where nobody has the primary context, this is another one, and none is made to see that.
        let Some(device) = found.filter(|device| device.is_in_use()) else { return Ok(None) };
        Ok((device.context()?.0 == context).then_some(device))
    }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        if self.pushed {
            let mut ours: CUcontext = std::ptr::null_mut();
            // SAFETY: `ours` is writable; what is popped is what `enter` pushed on this thread.
            let _gone_with_the_process = unsafe { cu!(cuCtxPopCurrent_v2(&mut ours)) };
        }
    }
}
