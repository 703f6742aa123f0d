//! Which driver a CUDA toolkit needs.
//!
//! Sources: "CUDA Compatibility" (<https://docs.nvidia.com/deploy/cuda-compatibility/>), tables of the
//! minor-version compatibility; "CUDA Toolkit Release Notes"
//! (<https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/>), "CUDA Toolkit and Corresponding Driver
//! Versions", column Linux.
//!
//! Rule: what is newer than these tables is judged by what stays true between majors (a driver runs
//! every older toolkit, and of its own major every toolkit), or said to be unknown.

use super::version::Version;

/// The driver that came with the first release of each toolkit: with it all of the toolkit works.
/// Newest first. 12.7 had a driver and no toolkit.
const DRIVERS: &[((u32, u32), &str)] = &[
    ((13, 1), "590.44.01"),
    ((13, 0), "580.65.06"),
    ((12, 9), "575.51.03"),
    ((12, 8), "570.26"),
    ((12, 6), "560.28.03"),
    ((12, 5), "555.42.02"),
    ((12, 4), "550.54.14"),
    ((12, 3), "545.23.06"),
    ((12, 2), "535.54.03"),
    ((12, 1), "530.30.02"),
    ((12, 0), "525.60.13"),
    ((11, 8), "520.61.05"),
    ((11, 7), "515.43.04"),
    ((11, 6), "510.39.01"),
    ((11, 5), "495.29.05"),
    ((11, 4), "470.42.01"),
    ((11, 3), "465.19.01"),
    ((11, 2), "460.27.03"),
    ((11, 1), "455.23"),
    ((11, 0), "450.36.06"),
    ((10, 2), "440.33"),
    ((10, 1), "418.39"),
    ((10, 0), "410.48"),
    ((9, 2), "396.26"),
    ((9, 1), "390.46"),
    ((9, 0), "384.81"),
    ((8, 0), "367.48"),
];

/// Minor-version compatibility: from this driver on every toolkit of the major runs, without what
/// only its own driver has, and without PTX that a newer toolkit than the driver's made.
const OF_MAJOR: &[(u32, &str)] = &[(13, "580"), (12, "525.60.13"), (11, "450.80.02")];

/// The oldest driver that the NVIDIA backend takes (see `backend-nvidia/src/search.rs`): CUDA 11.2.
pub const OLDEST: (u32, u32) = (11, 2);

/// What is known of a driver.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// Its release, for example 535.104.05.
    pub release: Option<Version>,
    /// The CUDA that it is for.
    pub cuda: Option<(u32, u32)>,
    /// The release is newer than all in the tables: it may be for a later CUDA than `cuda`.
    pub open_ended: bool,
}

impl Level {
    /// What a release is for, and what the driver itself said (`cuDriverGetVersion`), which counts
    /// more.
    pub fn of(release: Option<Version>, said: Option<(u32, u32)>) -> Level {
        let known = release.as_ref().and_then(cuda_of);
        let newest = DRIVERS[0].1;
        let open_ended = said.is_none()
            && release.as_ref().is_some_and(|release| {
                Version::parse(newest).is_some_and(|newest| release.major() > newest.major())
            });
        Level { release, cuda: said.or(known), open_ended }
    }
}

/// What a toolkit and a driver make together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All of the toolkit works.
    Full,
    /// Minor-version compatibility: what was compiled for the device runs; PTX of this toolkit is not
    /// compiled, and what only a newer driver has is missing.
    MinorVersion,
    /// Nothing built with the toolkit runs.
    DriverTooOld,
    /// There is no driver to judge by, or one newer than the tables.
    Unknown,
}

/// What comes of a toolkit over a driver.
pub fn judge(toolkit: (u32, u32), driver: &Level) -> Verdict {
    let Some(cuda) = driver.cuda else { return Verdict::Unknown };
    if toolkit <= cuda {
        return Verdict::Full;
    }
    if driver.open_ended {
        return Verdict::Unknown;
    }
    let least = minimum(toolkit.0);
    let new_enough = match (&driver.release, &least) {
        (Some(release), Some(least)) => release >= least,
        _ => true,
    };
    if toolkit.0 == cuda.0 && toolkit.0 >= 11 && new_enough {
        Verdict::MinorVersion
    } else {
        Verdict::DriverTooOld
    }
}

/// The oldest driver that runs a toolkit at all; `None` when the tables end before it.
pub fn needed(toolkit: (u32, u32)) -> Option<Version> {
    minimum(toolkit.0).or_else(|| shipped_with(toolkit))
}

/// The driver with which all of a toolkit works.
pub fn shipped_with(toolkit: (u32, u32)) -> Option<Version> {
    let (_, release) = DRIVERS.iter().find(|(cuda, _)| *cuda == toolkit)?;
    Version::parse(release)
}

fn minimum(major: u32) -> Option<Version> {
    let (_, release) = OF_MAJOR.iter().find(|(known, _)| *known == major)?;
    Version::parse(release)
}

/// The newest CUDA whose own driver is not newer than this release.
fn cuda_of(release: &Version) -> Option<(u32, u32)> {
    let mut rows = DRIVERS.iter();
    let row =
        rows.find(|(_, driver)| Version::parse(driver).is_some_and(|driver| driver <= *release))?;
    Some(row.0)
}

/// `(12, 4)` as `12.4`.
pub fn spell(cuda: (u32, u32)) -> String {
    format!("{}.{}", cuda.0, cuda.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(release: &str) -> Level {
        Level::of(Version::parse(release), None)
    }

    #[test]
    fn the_tables_are_in_order() {
        for pair in DRIVERS.windows(2) {
            let [(newer, a), (older, b)] = pair else { unreachable!("windows of two") };
            assert!(newer > older, "{newer:?}");
            assert!(Version::parse(a) > Version::parse(b), "{a} {b}");
        }
    }

    #[test]
    fn the_page_has_the_same_table() {
        let page = include_str!("../../../docs/doctor.md");
        for (cuda, release) in DRIVERS.iter().filter(|(cuda, _)| *cuda >= (10, 0)) {
            let told = format!("{}: {release}", spell(*cuda));
            assert!(page.contains(&told), "docs/doctor.md lacks {told}");
        }
        for (major, release) in OF_MAJOR {
            let row = format!("| {major}.x | {release} |");
            assert!(page.contains(&row), "docs/doctor.md lacks {row}");
        }
    }

    #[test]
    fn a_driver_runs_older_toolkits_fully_and_newer_ones_of_its_major_in_part() {
        let driver = level("535.104.05");
        assert_eq!(driver.cuda, Some((12, 2)));
        assert_eq!(judge((12, 2), &driver), Verdict::Full);
        assert_eq!(judge((11, 8), &driver), Verdict::Full);
        assert_eq!(judge((12, 9), &driver), Verdict::MinorVersion);
        assert_eq!(judge((13, 0), &driver), Verdict::DriverTooOld);
        assert_eq!(judge((13, 0), &level("579.99")), Verdict::DriverTooOld);
        assert_eq!(judge((13, 1), &level("580.65.06")), Verdict::MinorVersion);
        assert_eq!(judge((10, 2), &level("418.39")), Verdict::DriverTooOld);
    }

    #[test]
    fn the_first_driver_of_cuda_11_has_no_minor_version_compatibility() {
        assert_eq!(judge((11, 8), &level("450.36.06")), Verdict::DriverTooOld);
        assert_eq!(judge((11, 8), &level("450.80.02")), Verdict::MinorVersion);
    }

    #[test]
    fn what_the_tables_do_not_reach_is_unknown_until_the_driver_says_it() {
        assert_eq!(judge((13, 4), &level("700.10")), Verdict::Unknown);
        assert_eq!(judge((12, 4), &level("700.10")), Verdict::Full);
        let said = Level::of(Version::parse("700.10"), Some((14, 1)));
        assert_eq!(judge((14, 2), &said), Verdict::MinorVersion);
        assert_eq!(judge((15, 0), &said), Verdict::DriverTooOld);
        assert_eq!(judge((12, 4), &Level::default()), Verdict::Unknown);
    }

    #[test]
    fn what_is_needed_is_the_least_of_the_major() {
        let text = |version: Option<Version>| version.map(|version| version.to_string());
        assert_eq!(text(needed((12, 4))).as_deref(), Some("525.60.13"));
        assert_eq!(text(needed((10, 1))).as_deref(), Some("418.39"));
        assert_eq!(text(needed((14, 0))), None);
        assert_eq!(text(shipped_with((12, 4))).as_deref(), Some("550.54.14"));
    }
}
