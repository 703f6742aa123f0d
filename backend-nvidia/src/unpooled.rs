//! Memory of a device without pools: some virtual GPUs, and drivers that say so.
//!
//! Rule (contract M4): `cuMemFree` waits for the whole device, so it is called only while the device
//! is idle; until then a freed block is kept. When memory runs out, the device is waited for.

use crate::call::cu;
use crate::errors::SUCCESS;
use crate::marks;
use cust::sys::CUdeviceptr;
use parking_lot::Mutex;

/// The blocks of one device that were freed and are not back with the driver.
pub(crate) struct Unpooled {
    freed: Mutex<Vec<CUdeviceptr>>,
}

impl Unpooled {
    /// Nothing freed yet.
    pub(crate) const fn new() -> Unpooled {
        Unpooled { freed: Mutex::new(Vec::new()) }
    }

    /// Allocates; the driver's code on failure. The device's context is entered.
    pub(crate) fn allocate(&self, size: usize) -> Result<CUdeviceptr, i32> {
        self.release_when_idle();
        let mut address: CUdeviceptr = 0;
        // SAFETY: `address` is writable.
        let code = unsafe { cu!(cuMemAlloc_v2(&mut address, size)) };
        if code == SUCCESS { Ok(address) } else { Err(code) }
    }

    /// Keeps a freed block until the device is idle. The device's context is entered.
    pub(crate) fn free(&self, address: CUdeviceptr) {
        self.freed.lock().push(address);
        self.release_when_idle();
    }

    /// Gives every freed block back to the driver, which waits for the device.
    pub(crate) fn release(&self) {
        let freed = std::mem::take(&mut *self.freed.lock());
        for address in freed {
            // SAFETY: the block came from cuMemAlloc, and the record of it was just taken out.
            let _nobody_is_told = unsafe { cu!(cuMemFree_v2(address)) };
        }
    }

    fn release_when_idle(&self) {
        if !self.freed.lock().is_empty() && marks::all_are_idle() {
            self.release();
        }
    }
}
