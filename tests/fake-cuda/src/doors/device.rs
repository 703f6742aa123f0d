//! Initialisation, versions, error names, devices.

use super::doors;
use crate::devices::NAME;
use crate::driver;
use crate::entry::{out, put_if_asked, put_text, text};
use crate::errors::{INVALID_DEVICE, INVALID_VALUE, describe};
use crate::settings;

doors! {
    any cuInit(flags: u32) |()| driver::initialise(flags);
    any cuDriverGetVersion(version: *mut i32) |()| out(version)?.set(settings::driver_version());
    any cuGetErrorName(code: i32, name: *mut *const libc::c_char) |()| {
        let found = describe(code);
        out(name)?.set(found.map_or(std::ptr::null(), |(name, _)| name.as_ptr()))?;
        found.map(drop).ok_or(INVALID_VALUE)
    };
    any cuGetErrorString(code: i32, words: *mut *const libc::c_char) |()| {
        let found = describe(code);
        out(words)?.set(found.map_or(std::ptr::null(), |(_, text)| text.as_ptr()))?;
        found.map(drop).ok_or(INVALID_VALUE)
    };
    ready cuDeviceGetCount(count: *mut i32) |driver| out(count)?.set(driver.devices.len() as i32);
    ready cuDeviceGet(device: *mut i32, ordinal: i32) |driver| {
        driver.device(ordinal)?;
        out(device)?.set(ordinal)
    };
    ready cuDeviceGetName(name: *mut u8, room: i32, device: i32) |driver| {
        driver.device(device)?;
        put_text(name, room, NAME)
    };
    ready cuDeviceGetUuid(uuid: *mut [u8; 16], device: i32) |driver| {
        let (_, device) = driver.device(device)?;
        out(uuid)?.set(device.uuid())
    };
    ready cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: i32) |driver| {
        let (_, device) = driver.device(device)?;
        out(uuid)?.set(device.uuid())
    };
    ready cuDeviceGetPCIBusId(address: *mut u8, room: i32, device: i32) |driver| {
        let (_, device) = driver.device(device)?;
        let text = device.pci_address();
        if (room.max(0) as usize) <= text.len() { Err(INVALID_VALUE) } else { put_text(address, room, &text) }
    };
    ready cuDeviceGetByPCIBusId(device: *mut i32, address: *const libc::c_char) |driver| {
        let wanted = text(address)?.to_ascii_uppercase();
        let found = driver.devices.iter().position(|device| device.pci_address().ends_with(&wanted) && !wanted.is_empty());
        out(device)?.set(found.ok_or(INVALID_DEVICE)? as i32)
    };
    ready cuDeviceGetAttribute(value: *mut i32, attribute: i32, device: i32) |driver| {
        let (_, device) = driver.device(device)?;
        out(value)?.set(device.attribute(attribute, &driver.settings)?)
    };
    ready cuDeviceComputeCapability(major: *mut i32, minor: *mut i32, device: i32) |driver| {
        driver.device(device)?;
        out(major)?.set(9)?;
        out(minor)?.set(0)
    };
    ready cuDeviceTotalMem_v2(bytes: *mut usize, device: i32) |driver| {
        let (_, device) = driver.device(device)?;
        out(bytes)?.set(device.arena.sizes().0)
    };
    ready cuDeviceTotalMem(bytes: *mut u32, device: i32) |driver| {
        let (_, device) = driver.device(device)?;
        out(bytes)?.set(u32::try_from(device.arena.sizes().0).unwrap_or(u32::MAX))
    };
    ready cuDeviceCanAccessPeer(able: *mut i32, device: i32, peer: i32) |driver| {
        driver.device(device)?;
        driver.device(peer)?;
        out(able)?.set(i32::from(device != peer && !driver.settings.no_peer))
    };
    ready cuDeviceGetP2PAttribute(value: *mut i32, attribute: i32, from: i32, to: i32) |driver| {
        driver.device(from)?;
        driver.device(to)?;
        if from == to {
            return Err(INVALID_DEVICE);
        }
        match attribute {
            1 => out(value)?.set(0),
            2..=4 => out(value)?.set(i32::from(!driver.settings.no_peer)),
            _ => Err(INVALID_VALUE),
        }
    };
    ready cuDeviceGetExecAffinitySupport(able: *mut i32, kind: i32, device: i32) |driver| {
        driver.device(device)?;
        put_if_asked(able, i32::from(kind == 0));
        Ok(())
    };
    ready cuProfilerStart() |_| Ok(());
    ready cuProfilerStop() |_| Ok(());
}
