//! Case 3, 31 and 32: no driver, a stub, an old one, one without devices, one that does not fit.
//! Each is told apart, quickly, and the same answer comes again.

mod support;

use llaisys_runtime_core::status::Status;
use std::time::{Duration, Instant};
use support::{Failure, Plugin, driver_from, driver_that_answers, in_a_child};

/// The reason why there is no device; it comes within a second, and again.
fn reason() -> Failure {
    let plugin = Plugin::open();
    let start = Instant::now();
    let first = plugin.device_count().expect_err("there is no device");
    let again = plugin.device_count().expect_err("there is still no device");
    assert!(start.elapsed() < Duration::from_secs(1), "{first:?}");
    assert_eq!((first.status, &first.message), (again.status, &again.message));
    // Every other call says the same, also the one that starts the driver here.
    assert_eq!(plugin.initialize().expect_err("there is no device").message, first.message);
    // SAFETY: takes numbers alone.
    let status = unsafe { (plugin.api.set_device)(plugin.api.self_, 0) };
    assert_eq!(plugin.result(status).expect_err("there is no device").message, first.message);
    first
}

#[track_caller]
fn assert_says(failure: &Failure, status: Status, words: &[&str]) {
    assert_eq!(failure.status, status.code(), "{failure:?}");
    for word in words {
        assert!(failure.message.contains(word), "`{word}` is missing: {}", failure.message);
    }
}

#[test]
fn a_driver_that_was_named_and_is_not_there() {
    let name = "a_driver_that_was_named_and_is_not_there";
    in_a_child(name, &[("LLAISYS_CUDA_DRIVER", "/nowhere/libcuda.so.1")], || {
        let words = ["/nowhere/libcuda.so.1", "no such file"];
        assert_says(&reason(), Status::DriverUnavailable, &words);
    });
}

#[test]
fn without_a_driver_every_place_that_was_tried_is_listed() {
    let name = "without_a_driver_every_place_that_was_tried_is_listed";
    in_a_child(name, &[("LLAISYS_CUDA_DRIVER", "")], || {
        if let Ok(count) = Plugin::open().device_count() {
            println!("skipped: this machine has a driver and {count} devices");
            return;
        }
        let reason = reason();
        if reason.native_code != 0 {
            println!("skipped: this machine has a driver: {}", reason.message);
            return;
        }
        let words =
            ["libcuda.so.1 (", "libcuda.so (", "/usr/lib/wsl/lib/libcuda.so.1 (no such file)"];
        assert_says(&reason, Status::DriverUnavailable, &words);
    });
}

#[test]
fn a_stub_is_called_a_stub() {
    let stub = driver_that_answers("stub", 34, 0);
    in_a_child("a_stub_is_called_a_stub", &[("LLAISYS_CUDA_DRIVER", &stub)], || {
        assert_says(&reason(), Status::DriverUnavailable, &["stub", "(34)", "stub-"]);
    });
}

#[test]
fn a_stub_makes_room_for_the_driver_behind_it() {
    let stub = driver_that_answers("stub-first", 34, 0);
    let real = driver_that_answers("behind", 100, 12040);
    let name = "a_stub_makes_room_for_the_driver_behind_it";
    in_a_child(name, &[("LLAISYS_CUDA_DRIVER", &format!("{stub}:{real}"))], || {
        let words = ["found no device", "behind-", "CUDA 12.4", "CUDA_ERROR_NO_DEVICE (100)"];
        assert_says(&reason(), Status::DriverUnavailable, &words);
    });
}

#[test]
fn a_driver_that_is_too_old_is_named_with_both_versions_and_not_initialised() {
    let old = driver_from(
        "old",
        "#include <stdlib.h>\nint cuInit(unsigned f) { abort(); }\n\
         int cuDeviceGetCount(int *n) { return 3; }\n\
         int cuDriverGetVersion(int *v) { *v = 10020; return 0; }\n",
    );
    let name = "a_driver_that_is_too_old_is_named_with_both_versions_and_not_initialised";
    in_a_child(name, &[("LLAISYS_CUDA_DRIVER", &old)], || {
        assert_says(&reason(), Status::DriverTooOld, &["10.2", "11.2", "old-"]);
    });
}

#[test]
fn no_device_says_what_is_visible() {
    let driver = driver_that_answers("nodevice", 100, 12080);
    let environment = [("LLAISYS_CUDA_DRIVER", driver.as_str()), ("CUDA_VISIBLE_DEVICES", "-1")];
    in_a_child("no_device_says_what_is_visible", &environment, || {
        let reason = reason();
        assert_says(&reason, Status::DriverUnavailable, &["CUDA_VISIBLE_DEVICES is \"-1\""]);
        assert_eq!(
            (reason.native_code, reason.native_name.as_str()),
            (100, "CUDA_ERROR_NO_DEVICE")
        );
    });
}

#[test]
fn a_driver_that_starts_and_lists_no_device_is_no_device() {
    let driver = driver_from(
        "empty",
        "static int ready; int cuInit(unsigned f) { ready = 1; return 0; }\n\
         int cuDriverGetVersion(int *v) { *v = 12080; return 0; }\n\
         int cuDeviceGetCount(int *n) { *n = 0; return ready ? 0 : 3; }\n",
    );
    let name = "a_driver_that_starts_and_lists_no_device_is_no_device";
    in_a_child(name, &[("LLAISYS_CUDA_DRIVER", &driver)], || {
        assert_says(&reason(), Status::DriverUnavailable, &["found no device", "empty-"]);
    });
}

#[test]
fn a_mismatch_and_a_compatibility_library_name_the_library_and_what_to_do() {
    for (code, what_to_do) in [(803, "Reload the module"), (804, "LD_LIBRARY_PATH")] {
        let driver = driver_that_answers(&format!("mismatch{code}"), code, 12060);
        let name = "a_mismatch_and_a_compatibility_library_name_the_library_and_what_to_do";
        let environment = [("LLAISYS_CUDA_DRIVER", driver.as_str()), ("WHAT", what_to_do)];
        in_a_child(name, &environment, || {
            let what_to_do = std::env::var("WHAT").expect("set above");
            let reason = reason();
            let words = ["mismatch80", "CUDA 12.6", "kernel module", what_to_do.as_str()];
            assert_says(&reason, Status::DriverUnavailable, &words);
        });
        if std::env::var("WHAT").is_ok() {
            break;
        }
    }
}

#[test]
fn a_library_that_is_no_driver_is_refused_by_name() {
    let other = driver_from("other", "int something(void) { return 1; }\n");
    let name = "a_library_that_is_no_driver_is_refused_by_name";
    in_a_child(name, &[("LLAISYS_CUDA_DRIVER", &format!("{other}:/proc/self/status"))], || {
        let words = ["no cuInit", "/proc/self/status ("];
        assert_says(&reason(), Status::DriverUnavailable, &words);
    });
}
