//! What the devices are and how they are linked.

use crate::rig::{Rig, failure};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::*;

#[test]
fn the_properties_say_what_the_processor_is() {
    let rig = Rig::with_devices(2);
    let properties = rig.0.get_device_properties(1).expect("properties");
    assert_eq!(properties.integrated, 1);
    assert_eq!(properties.capabilities, rig.0.capabilities().0);
    assert_eq!((properties.driver_version, properties.runtime_version), (0, 0));
    assert_eq!(properties.compute_capability_major, 0);
    assert!(read_text(&properties.pci_address).is_empty());
    // Where the system says it, it is within reason.
    let (cache, clock) = (properties.l2_cache_size, properties.clock_rate);
    assert!(cache == 0 || (64 << 10..8 << 30).contains(&cache), "{cache}");
    assert!(clock == 0 || (100_000..20_000_000).contains(&clock), "{clock}");
    #[cfg(target_arch = "x86_64")]
    {
        let features = read_text(&properties.cpu_features);
        let has = features.split(' ').any(|feature| feature == "avx2");
        assert_eq!(has, std::arch::is_x86_feature_detected!("avx2"), "{features}");
    }
}

#[test]
fn devices_reach_each_others_memory_which_is_the_same() {
    let rig = Rig::with_devices(3);
    for device in 0..3 {
        for peer in 0..3 {
            let link = rig.0.get_peer_link(device, peer).expect("a link");
            let kind = if device == peer { LINK_SAME_DEVICE } else { LINK_SHARED_MEMORY };
            assert_eq!((link.kind, link.can_access, link.enabled), (kind, 1, 1));
            for _ in 0..2 {
                rig.0.enable_peer_access(device, peer).expect("again is fine");
            }
        }
    }
    for (device, peer) in [(0, 3), (3, 0), (-1, 1)] {
        assert_eq!(failure(rig.0.get_peer_link(device, peer)), Status::InvalidDevice);
        assert_eq!(failure(rig.0.enable_peer_access(device, peer)), Status::InvalidDevice);
    }
}
