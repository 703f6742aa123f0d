//! How the NVIDIA plugin finds its driver, and what it says when there is none that it can use (D1).

use super::nvidia_driver::{driver, launch};
use crate::case::Area;
use crate::code::Code;
use crate::context::Context;
use crate::folder::Folder;
use crate::outcome::Checked;
use crate::plugin_file::Survey;
use crate::program::Launch;
use llaisys_runtime_core::Status;
use std::time::{Duration, Instant};

cases! { Area::NvidiaDriver;
    "D1" no_driver_is_a_quiet_zero_with_the_paths_that_were_tried [FakeDriver];
    "D1" a_file_that_is_no_driver_is_a_quiet_zero [FakeDriver];
    "D1" a_stub_is_told_from_a_machine_without_devices [FakeDriver];
    "D1" each_failure_of_the_drivers_start_is_a_zero_with_its_name [FakeDriver];
    "D1" a_driver_that_is_too_old_is_named_with_both_versions [FakeDriver];
    "D1" no_visible_device_is_a_quiet_zero [FakeDriver];
    "D6" the_order_of_the_devices_is_the_drivers [FakeDriver];
    "D1" the_driver_is_found_by_its_name [FakeDriver];
}

/// What NVIDIA's devices are with this driver, and that the CPU works beside it.
fn zero(launch: Launch, right: &[Status], words: &[&str]) -> Checked {
    let launch = ["count=1", "count=1", "use=1", "cpu"]
        .iter()
        .fold(launch, |launch, command| launch.argument(command));
    let started = Instant::now();
    let survey = Survey::read(launch.run()?)?;
    ensure!(started.elapsed() < Duration::from_secs(5), "it took {:?}", started.elapsed());
    for index in [0, 1] {
        ensure_eq!(survey.number(index, "count")?, 0, "the count, time {index}");
        let code = Code(survey.number(index, "code")? as i32);
        let names: Vec<_> = right.iter().map(|status| status.name()).collect();
        let fits = right.iter().any(|status| code.is(*status));
        ensure!(fits, "expected {}, found {:?}", names.join(" or "), survey.answer(index)?);
        let message = survey.answer(index)?["message"].as_str().unwrap_or_default().to_owned();
        for word in words {
            ensure!(message.contains(word), "expected {word:?} in the reason, found {message:?}");
        }
    }
    ensure!(survey.number(2, "code")? != 0, "expected a failure, found {:?}", survey.answer(2)?);
    survey.expect_cpu(3)
}

fn no_driver_is_a_quiet_zero_with_the_paths_that_were_tried(context: &'static Context) -> Checked {
    let path = "/nowhere/at/all/libcuda.so.1";
    let launch = launch(context, "survey").env("LLAISYS_CUDA_DRIVER", path);
    zero(launch, &[Status::DriverUnavailable], &[path])
}

fn a_file_that_is_no_driver_is_a_quiet_zero(context: &'static Context) -> Checked {
    let folder = Folder::new("driver")?;
    let text = folder.write("libcuda.so.1", b"this is a text")?;
    let empty = folder.write("empty.so", b"")?;
    for path in [text, empty, folder.path().to_owned()] {
        let launch = launch(context, "survey").env("LLAISYS_CUDA_DRIVER", &path);
        zero(launch, &[Status::DriverUnavailable], &[&path.display().to_string()])?;
    }
    Ok(())
}

fn a_stub_is_told_from_a_machine_without_devices(context: &'static Context) -> Checked {
    let stub = launch(context, "survey").env("FAKE_CUDA_INIT_ERROR", "34");
    zero(stub, &[Status::DriverUnavailable], &["stub"])?;
    let none = launch(context, "survey").env("FAKE_CUDA_INIT_ERROR", "100");
    zero(none, &[Status::DriverUnavailable], &[])?;
    let none = launch(context, "survey").env("FAKE_CUDA_DEVICES", "0");
    zero(none, &[Status::Success, Status::DriverUnavailable], &[])
}

fn each_failure_of_the_drivers_start_is_a_zero_with_its_name(context: &'static Context) -> Checked {
    for (code, name) in [
        ("803", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        ("804", "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
        ("802", "CUDA_ERROR_SYSTEM_NOT_READY"),
        ("999", "CUDA_ERROR_UNKNOWN"),
        ("2", "CUDA_ERROR_OUT_OF_MEMORY"),
        ("46", "46"),
    ] {
        let right = [
            Status::DriverUnavailable,
            Status::DriverTooOld,
            Status::DriverError,
            Status::OutOfMemory,
        ];
        let path = driver().display().to_string();
        let launch = launch(context, "survey").env("FAKE_CUDA_INIT_ERROR", code);
        let words: &[&str] = match code {
            // Where versions are the reason, the library that was opened is named.
            "803" | "804" => &[name, &path],
            _ => &[],
        };
        zero(launch, &right, words).map_err(|stop| stop.at(format!("cuInit answers {code}")))?;
    }
    Ok(())
}

fn a_driver_that_is_too_old_is_named_with_both_versions(context: &'static Context) -> Checked {
    for (number, name) in [("9000", "9.0"), ("10020", "10.2")] {
        let launch = launch(context, "survey").env("FAKE_CUDA_DRIVER_VERSION", number);
        zero(launch, &[Status::DriverTooOld], &[name])?;
    }
    Ok(())
}

fn no_visible_device_is_a_quiet_zero(context: &'static Context) -> Checked {
    for value in ["", "-1"] {
        let launch = launch(context, "survey").env("CUDA_VISIBLE_DEVICES", value);
        // Nothing is wrong: the user asked for it. A reason that says so is welcome.
        zero(launch, &[Status::Success, Status::DriverUnavailable], &[])
            .map_err(|stop| stop.at(format!("CUDA_VISIBLE_DEVICES={value:?}")))?;
    }
    Ok(())
}

fn the_order_of_the_devices_is_the_drivers(context: &'static Context) -> Checked {
    for (value, count) in [("0", 1), ("1", 1), ("0,1", 2), ("1,0", 2), ("0,99,1", 1), ("1,-1,0", 1)]
    {
        let launch = launch(context, "survey").env("CUDA_VISIBLE_DEVICES", value);
        let survey = Survey::read(launch.argument("count=1").argument("use=1").run()?)?;
        ensure_eq!(survey.number(0, "count")?, count, "the count with {value:?} visible");
        survey.expect(1, Status::Success, "")?;
    }
    Ok(())
}

fn the_driver_is_found_by_its_name(context: &'static Context) -> Checked {
    let folder = Folder::new("driver")?;
    folder.link(&driver(), "libcuda.so.1")?;
    let launch = context.program("survey").device_type("nvidia").without("LLAISYS_CUDA_DRIVER");
    let launch = launch.env("LD_LIBRARY_PATH", folder.path());
    let survey = Survey::read(launch.argument("count=1").argument("use=1").run()?)?;
    ensure!(survey.number(0, "count")? >= 1, "expected a device, found {survey:?}");
    survey.expect(1, Status::Success, "")
}
