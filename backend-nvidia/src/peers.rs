//! How a device reaches the memory of another, and switching that on.
//!
//! Rules: the answer makes no context (contract D4). Kernels reach memory of a pool only through the
//! pool's own access list, and everything else through the context's; switching access on means both. (The
//! pools open by themselves as soon as both devices are in use, see `pool`.)

use crate::call::cu;
use crate::device::Device;
use crate::driver::driver;
use crate::errors::{self, PEER_ACCESS_ALREADY_ENABLED, SUCCESS};
use crate::nvml;
use cust::sys::{self, CUdevice_P2PAttribute};
use llaisys_runtime_core::api::{LINK_NVLINK, LINK_PCIE, LlaisysPeerLink};
use llaisys_runtime_core::error::{Error, Result};
use llaisys_runtime_core::status::Status;
use std::ffi::c_int;
use std::sync::atomic::Ordering;

impl Device {
    /// How this device reaches the memory of `peer`, another device.
    pub(crate) fn link_to(&self, peer: &Device) -> Result<LlaisysPeerLink> {
        if !self.can_reach(peer)? {
            return Ok(LlaisysPeerLink::staged());
        }
        use sys::CUdevice_P2PAttribute_enum as Attribute;
        let rank = self.of_link(Attribute::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, peer);
        let atomics =
            self.of_link(Attribute::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, peer);
        let has_atomics = atomics.unwrap_or_default() != 0;
        // NVML knows. Where it is not to be had: atomics work over every NVLink, and over no PCIe.
        let is_nvlink = nvml::is_nvlink(&self.pci_address(), &peer.pci_address());
        let kind = if is_nvlink.unwrap_or(has_atomics) { LINK_NVLINK } else { LINK_PCIE };
        Ok(LlaisysPeerLink {
            can_access: 1,
            enabled: u32::from(self.reaches(peer)),
            kind,
            performance_rank: rank.unwrap_or_default(),
            native_atomics: u32::from(has_atomics),
            ..LlaisysPeerLink::staged()
        })
    }

    /// Lets kernels on this device use the memory of `peer`, another device.
    pub(crate) fn enable_access_to(&self, peer: &Device) -> Result<()> {
        if !self.can_reach(peer)? {
            let message = format!(
                "device {} has no direct path to the memory of device {}; copies between them work",
                self.ordinal, peer.ordinal
            );
            return Err(Error::new(Status::NotSupported, message));
        }
        let there = peer.context()?.native();
        let _entered = self.enter()?;
        // SAFETY: both are retained primary contexts, and this device's is entered.
        match unsafe { cu!(cuCtxEnablePeerAccess(there, 0)) } {
            PEER_ACCESS_ALREADY_ENABLED => {}
            code => errors::check(code, || {
                format!("open the memory of device {} to device {}", peer.ordinal, self.ordinal)
            })?,
        }
        {
            let _setup = driver()?.setup.lock();
            if let Some(Some(pool)) = peer.pool.get() {
                pool.admit(peer, self);
            }
        }
        if let Some(reaches) = self.reaches.get(peer.ordinal as usize) {
            reaches.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether access to `peer` was switched on here.
    fn reaches(&self, peer: &Device) -> bool {
        let reaches = self.reaches.get(peer.ordinal as usize);
        reaches.is_some_and(|reaches| reaches.load(Ordering::Relaxed))
    }

    /// Whether there is a direct path to the memory of `peer`.
    pub(crate) fn can_reach(&self, peer: &Device) -> Result<bool> {
        let mut possible: c_int = 0;
        // SAFETY: `possible` is writable and the handles are the driver's own.
        let code = unsafe { cu!(cuDeviceCanAccessPeer(&mut possible, self.handle, peer.handle)) };
        errors::check(code, || {
            format!("ask for a path from device {} to device {}", self.ordinal, peer.ordinal)
        })?;
        Ok(possible != 0)
    }

    /// An attribute of the path to `peer`; `None` when the driver does not know it.
    fn of_link(&self, attribute: CUdevice_P2PAttribute, peer: &Device) -> Option<c_int> {
        let mut value: c_int = 0;
        // SAFETY: `value` is writable and the handles are the driver's own.
        let code = unsafe {
            cu!(cuDeviceGetP2PAttribute(&mut value, attribute, self.handle, peer.handle))
        };
        (code == SUCCESS).then_some(value)
    }
}
