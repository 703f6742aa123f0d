//! Memory of a device without pools: some virtual GPUs, and drivers that say so.
//!
//! Rule (contract M4): `cuMemFree` waits for the whole device, so it is called only while the device
//! is idle; until then a freed block is kept. When memory runs out, the device is waited for.

use crate::call::cu;
use crate::errors::SUCCESS;
use crate::marks;
use cust::sys::CUdeviceptr;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The blocks of one device that are not back with the driver.
pub(crate) struct Unpooled(Mutex<Blocks>);

struct Blocks {
    /// What is handed out, with its size: a free is not told.
    used: BTreeMap<CUdeviceptr, usize>,
    /// What was freed.
    freed: BTreeMap<CUdeviceptr, usize>,
}

fn bytes(blocks: &BTreeMap<CUdeviceptr, usize>) -> u64 {
    blocks.values().map(|&size| size as u64).sum()
}

impl Unpooled {
    /// No blocks yet.
    pub(crate) const fn new() -> Unpooled {
        Unpooled(Mutex::new(Blocks { used: BTreeMap::new(), freed: BTreeMap::new() }))
    }

    /// Allocates; the driver's code on failure. The device's context is entered.
    pub(crate) fn allocate(&self, size: usize) -> Result<CUdeviceptr, i32> {
        self.release_when_idle();
        let mut address: CUdeviceptr = 0;
        // SAFETY: `address` is writable.
        let code = unsafe { cu!(cuMemAlloc_v2(&mut address, size)) };
        if code != SUCCESS {
            return Err(code);
        }
        self.0.lock().used.insert(address, size);
        Ok(address)
    }

    /// Keeps a freed block until the device is idle. The device's context is entered.
    pub(crate) fn free(&self, address: CUdeviceptr) {
        {
            let mut blocks = self.0.lock();
            let size = blocks.used.remove(&address).unwrap_or_default();
            blocks.freed.insert(address, size);
        }
        self.release_when_idle();
    }

    /// Gives every freed block back to the driver, which waits for the device.
    pub(crate) fn release(&self) {
        let freed = std::mem::take(&mut self.0.lock().freed);
        for address in freed.into_keys() {
            // SAFETY: the block came from cuMemAlloc, and the record of it was just taken out.
            let _nobody_is_told = unsafe { cu!(cuMemFree_v2(address)) };
        }
    }

    /// Gives every freed block back to the driver if that does not wait.
    pub(crate) fn release_when_idle(&self) {
        if !self.0.lock().freed.is_empty() && marks::all_are_idle() {
            self.release();
        }
    }

    /// Bytes that are handed out or kept.
    pub(crate) fn held(&self) -> u64 {
        let blocks = self.0.lock();
        bytes(&blocks.used) + bytes(&blocks.freed)
    }

    /// Bytes that are kept.
    pub(crate) fn freed(&self) -> u64 {
        bytes(&self.0.lock().freed)
    }
}
