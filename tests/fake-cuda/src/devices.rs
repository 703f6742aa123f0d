//! The devices: how many are visible, what they are called, what they say of themselves.
//!
//! The rule: a device is an H200 in everything that can be asked of it, except for its memory's size.

use crate::arena::Arena;
use crate::errors::{Answer, INVALID_DEVICE, INVALID_VALUE, NO_DEVICE};
use crate::settings::Settings;
use std::sync::Arc;

/// One device.
pub struct Device {
    /// Its number in the machine, which `CUDA_VISIBLE_DEVICES` counts by.
    pub number: usize,
    pub arena: Arc<Arena>,
}

pub const NAME: &str = "NVIDIA H200 (fake)";

impl Device {
    pub fn uuid(&self) -> [u8; 16] {
        let mut uuid = *b"\xfa\x4e\xcd\xa0\x11\xa1\x55\xe5\x80\x00\x00\x00\x00\x00\x00\x00";
        uuid[15] = self.number as u8;
        uuid[14] = (self.number >> 8) as u8;
        uuid
    }

    pub fn pci_address(&self) -> String {
        format!("{:04X}:{:02X}:00.0", 0, self.bus())
    }

    fn bus(&self) -> usize {
        0x1b + self.number
    }

    pub fn attribute(&self, attribute: i32, settings: &Settings) -> Answer<i32> {
        match attribute {
            13 => Ok(1_980_000),
            36 => Ok(3_201_000),
            33 => Ok(self.bus() as i32),
            34 | 50 => Ok(0),
            115 | 119 if settings.no_mempools => Ok(0),
            83 if settings.no_managed => Ok(0),
            89 if settings.no_managed || settings.no_concurrent_managed => Ok(0),
            _ => ATTRIBUTES
                .iter()
                .find(|(a, _)| *a == attribute)
                .map(|(_, value)| *value)
                .ok_or(INVALID_VALUE),
        }
    }

    /// The identifier in the form that `CUDA_VISIBLE_DEVICES` takes.
    fn uuid_text(number: usize) -> String {
        let uuid = Device { number, arena: Arena::new(0) }.uuid();
        let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        format!(
            "GPU-{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        )
    }
}

/// The devices that `CUDA_VISIBLE_DEVICES` leaves, by their numbers. A list ends at its first entry that
/// names no device; a device that is named twice is an error.
pub fn visible(devices: usize) -> Answer<Vec<usize>> {
    let mut seen = Vec::new();
    match std::env::var("CUDA_VISIBLE_DEVICES") {
        Err(_) => seen.extend(0..devices),
        Ok(list) => {
            for entry in list.split(',') {
                let Some(number) = named(entry, devices) else { break };
                if seen.contains(&number) {
                    return Err(INVALID_DEVICE);
                }
                seen.push(number);
            }
        }
    }
    if seen.is_empty() { Err(NO_DEVICE) } else { Ok(seen) }
}

fn named(entry: &str, devices: usize) -> Option<usize> {
    let entry = entry.trim_start();
    if entry.starts_with("GPU-") {
        let mut fits = (0..devices).filter(|number| Device::uuid_text(*number).starts_with(entry));
        return fits.next().filter(|_| fits.next().is_none());
    }
    // The driver reads the leading digits and nothing else.
    let digits = entry.len() - entry.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    entry[..digits].parse().ok().filter(|number| *number < devices)
}

/// What an H200 under driver 580 answers, but for clocks and addresses.
const ATTRIBUTES: &[(i32, i32)] = &[
    (1, 1024),
    (2, 1024),
    (3, 1024),
    (4, 64),
    (5, 2147483647),
    (6, 65535),
    (7, 65535),
    (8, 49152),
    (9, 65536),
    (10, 32),
    (11, 2147483647),
    (12, 65536),
    (14, 512),
    (15, 1),
    (16, 132),
    (17, 0),
    (18, 0),
    (19, 1),
    (20, 0),
    (21, 131072),
    (22, 131072),
    (23, 65536),
    (24, 16384),
    (25, 16384),
    (26, 16384),
    (27, 32768),
    (28, 32768),
    (29, 2048),
    (30, 512),
    (31, 1),
    (32, 1),
    (35, 0),
    (37, 6016),
    (38, 62914560),
    (39, 2048),
    (40, 3),
    (41, 1),
    (42, 32768),
    (43, 2048),
    (44, 1),
    (45, 32768),
    (46, 32768),
    (47, 8192),
    (48, 8192),
    (49, 32768),
    (51, 32),
    (52, 32768),
    (53, 32768),
    (54, 2046),
    (55, 32768),
    (56, 131072),
    (57, 65536),
    (58, 16384),
    (59, 16384),
    (60, 16384),
    (61, 32768),
    (62, 2048),
    (63, 32768),
    (64, 32768),
    (65, 2048),
    (66, 32768),
    (67, 32768),
    (68, 2046),
    (69, 268435456),
    (70, 131072),
    (71, 65000),
    (72, 2097120),
    (73, 32768),
    (74, 32768),
    (75, 9),
    (76, 0),
    (77, 32768),
    (78, 1),
    (79, 1),
    (80, 1),
    (81, 233472),
    (82, 65536),
    (83, 1),
    (84, 0),
    (85, 0),
    (86, 0),
    (87, 2),
    (88, 0),
    (89, 1),
    (90, 1),
    (91, 1),
    (92, 0),
    (93, 0),
    (94, 0),
    (95, 1),
    (96, 1),
    (97, 232448),
    (98, 0),
    (99, 1),
    (100, 0),
    (101, 0),
    (102, 1),
    (103, 1),
    (104, 0),
    (105, 0),
    (106, 32),
    (107, 1),
    (108, 39321600),
    (109, 134217728),
    (110, 1),
    (111, 1024),
    (112, 1),
    (113, 1),
    (114, 1),
    (115, 1),
    (116, 1),
    (117, 1),
    (118, 100),
    (119, 9),
    (120, 1),
    (121, 1),
    (122, 1),
    (123, 1),
    (124, 1),
    (125, 1),
    (126, 4),
    (127, 1),
    (128, 1),
    (129, 1),
    (130, 0),
    (131, -1),
    (132, 1),
    (133, 0),
    (134, 0),
    (135, 0),
    (136, 0),
    (137, 0),
    (138, 0),
];
