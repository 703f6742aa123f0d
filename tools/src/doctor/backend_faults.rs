//! What is wrong with the backends: refused, missing, without a device.
//!
//! Rule: the loader's and the driver's own words are quoted; a cause that was found already is not said
//! a second time.

use super::backends::{Candidate, NoDevice, Trouble};
use super::fault::{Code, Faults};
use super::{Report, driver_faults, environment};

/// Finds them.
pub fn find(report: &Report, faults: &mut Faults) {
    if !report.asked {
        return;
    }
    match &report.trouble {
        Some(Trouble::TimedOut(limit)) if !faults.has(&[Code::DriverHangs]) => faults.error(
            Code::DriverHangs,
            format!("the backends did not answer within {} s", limit.as_secs()),
            "A plugin or the driver under it hangs. Try without plugins: LLAISYS_BACKENDS= ; or give \
             it more time: --limit 300.",
        ),
        Some(Trouble::TimedOut(_)) => return,
        Some(Trouble::Failed(reason)) => faults.error(
            Code::BackendsNotAsked,
            format!("the backends could not be asked: {reason}"),
            "A plugin, or the driver under it, ends the process that opens it. `llaisys-rt devices` \
             shows it; leave plugins out one by one with LLAISYS_BACKENDS.",
        ),
        None => {}
    }
    for candidate in &report.candidates {
        if !candidate.taken {
            refused(report, candidate, faults);
        } else if let Some(reason) = &candidate.no_device {
            without_device(report, candidate, reason, faults);
        }
    }
    missing(report, faults);
    required(report, faults);
}

fn refused(report: &Report, candidate: &Candidate, faults: &mut Faults) {
    let path = candidate.path.as_deref().unwrap_or("?");
    let what = format!("the backend {path} was refused: {}", candidate.reason);
    let same =
        |other: &Candidate| other.taken && other.name.is_some() && other.name == candidate.name;
    if report.candidates.iter().any(same) {
        faults.warning(
            Code::BackendRefused,
            what,
            "Another file serves its devices. Remove the one that is not wanted.",
        );
        return;
    }
    let advice = match candidate.status.as_str() {
        "ABI_MISMATCH" => "Take the plugin and the library from the same release.",
        _ => "Mend what the reason says, or remove the file from where plugins are looked for.",
    };
    faults.error(Code::BackendRefused, what, advice);
}

fn without_device(report: &Report, candidate: &Candidate, reason: &NoDevice, faults: &mut Faults) {
    if candidate.name.as_deref() != Some("nvidia") || faults.explain_no_device() {
        return;
    }
    let quoted = quoted(reason);
    let visible = environment::value("CUDA_VISIBLE_DEVICES");
    match (reason.native_code, reason.status.as_str()) {
        (_, "DRIVER_TOO_OLD") => {
            faults.error(Code::DriverTooOld, quoted, "Update NVIDIA's driver.")
        }
        (Some(803), _) => {
            faults.error(
                Code::DriverMismatch,
                quoted,
                "After an update of the driver, reboot (or unload and load its modules). Otherwise \
                 remove the library that does not belong to the module.",
            );
            faults.by("sudo reboot");
        }
        (Some(804), _) => driver_faults::compat_was_refused(faults, report),
        (Some(802), _) => {
            faults.error(
                Code::SystemNotReady,
                quoted,
                "On machines with NVSwitch the fabric manager of the driver's very release must run.",
            );
            faults.by("sudo systemctl start nvidia-fabricmanager");
        }
        (Some(805..=809), _) => {
            faults.error(
                Code::MpsUnreachable,
                quoted,
                "The MPS server is not there or refuses. Start it, or unset \
                 CUDA_MPS_PIPE_DIRECTORY.",
            );
            faults.by("nvidia-cuda-mps-control -d");
        }
        (Some(100 | 101), _) => match visible {
            Some(list) => {
                faults.error(
                    Code::HiddenDevices,
                    format!("CUDA_VISIBLE_DEVICES is {list:?}, which leaves the driver no device"),
                    "Unset it, or name devices that are there; a number that is not, or -1, ends the \
                     list.",
                );
                faults.by("unset CUDA_VISIBLE_DEVICES");
            }
            None => faults.error(
                Code::NoDevice,
                quoted,
                "The driver runs and sees no GPU: the GPU may have failed (dmesg has lines with \
                 `NVRM`), or be in another container or virtual machine.",
            ),
        },
        (Some(_), _) => {
            faults.error(
                Code::InitFailed,
                quoted,
                "dmesg says more. A reboot often helps; in a container, start it again on the host.",
            );
            faults.by("sudo dmesg | grep -i -e nvrm -e nvidia");
        }
        (None, _) => {
            match environment::value("LLAISYS_CUDA_DRIVER").filter(|list| !list.is_empty()) {
                Some(list) => {
                    faults.error(
                    Code::DriverFileUnusable,
                    format!("LLAISYS_CUDA_DRIVER is {list:?}, and no driver is there: {quoted}"),
                    "Name the driver's library, by an absolute path, or unset it: then the usual \
                     places are tried.",
                );
                    faults.by("unset LLAISYS_CUDA_DRIVER");
                }
                // A machine without anything of NVIDIA's is well without a driver.
                None if report.is_nvidia_there() => faults.error(
                    Code::InitFailed,
                    quoted,
                    "Something of NVIDIA's is there, and its driver cannot be used.",
                ),
                None => {}
            }
        }
    }
}

/// What the backend said, without its own advice: its first sentence, with the driver's code.
fn quoted(reason: &NoDevice) -> String {
    let first = reason.message.split(". ").next().unwrap_or_default();
    match (&reason.native_name, reason.native_code) {
        (Some(name), Some(code)) if !first.contains(name.as_str()) => {
            format!("{first}: {name} ({code})")
        }
        _ => first.to_owned(),
    }
}

/// Whether a driver answers and no plugin is there to use it.
fn missing(report: &Report, faults: &mut Faults) {
    let has = report.candidates.iter().any(|candidate| candidate.name.as_deref() == Some("nvidia"));
    let devices =
        report.driver.asked.as_ref().and_then(|answer| answer.devices).unwrap_or_default();
    if !has && devices > 0 && !report.candidates.is_empty() {
        faults.error(
            Code::BackendMissing,
            format!("the driver has {devices} device(s), and no NVIDIA backend was found"),
            "Put libllaisys_backend_nvidia.so beside the library, or name its folder in \
             LLAISYS_BACKEND_PATH.",
        );
    }
}

/// Backends that the environment requires and that have no device.
fn required(report: &Report, faults: &mut Faults) {
    let list = environment::value("LLAISYS_REQUIRE").unwrap_or_default();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let works = report.candidates.iter().any(|candidate| {
            candidate.name.as_deref() == Some(name) && candidate.taken && candidate.device_count > 0
        });
        if !works && !report.candidates.is_empty() {
            faults.error(
                Code::RequiredMissing,
                format!("LLAISYS_REQUIRE names {name}, which has no device: every call fails"),
                "Mend the backend (see the other faults), or take it off the list to run without.",
            );
            faults.by("unset LLAISYS_REQUIRE");
        }
    }
}
