//! `llaisys-rt demo`: the real thing on every device, from every language, in one table.
//!
//! Rule: what went wrong on one device or with one client is said and counted, and the others are
//! run all the same.

use crate::clients::{self, Client, Job};
use crate::progress::Progress;
use crate::row::{self, Measured, Row};
use crate::{print, runtime, two_streams};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The arguments of `demo`.
#[derive(clap::Args)]
pub struct Options {
    /// Only devices of this backend, for example cpu or nvidia
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// How much each copy moves, in MiB
    #[arg(long, value_name = "N", default_value = "64", value_parser = crate::mib)]
    mib: u64,
    /// How often after a warm-up; the median counts
    #[arg(long, value_name = "N", default_value = "10", value_parser = crate::times)]
    repeat: u32,
    /// The folder of the clients in other languages: c/copy_two_streams, cpp/copy_two_streams and
    /// python/copy_two_streams.py
    #[arg(long, value_name = "DIR", value_parser = crate::existing)]
    clients: Option<PathBuf>,
    /// The library that the Python client is to use (the built ones know theirs) [default:
    /// libllaisys_runtime.so beside this command]
    #[arg(long, value_name = "PATH", requires = "clients", value_parser = crate::existing)]
    library: Option<PathBuf>,
    /// How long one client may take on one device, in seconds
    #[arg(long, value_name = "N", default_value = "300",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    limit: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What `--json` prints. Fields are added, never renamed.
#[derive(Default, Serialize)]
struct Report {
    /// Everything that was asked for was done, and all data was right.
    right: bool,
    rows: Vec<Row>,
    failures: Vec<Failure>,
    /// Backends that are in use and have no device, so that nobody takes another's speed for theirs.
    without_device: Vec<WithoutDevice>,
}

/// A backend that could not be run on.
#[derive(Serialize)]
struct WithoutDevice {
    backend: String,
    reason: String,
}

/// Something that was asked for and did not come.
#[derive(Serialize)]
struct Failure {
    client: Option<&'static str>,
    backend: String,
    ordinal: Option<i32>,
    reason: String,
}

/// A device to run on.
struct Device {
    backend: String,
    device_type: i32,
    ordinal: i32,
    name: String,
}

impl Device {
    fn step(&self, client: &str) -> String {
        format!("{client} on {}:{}", self.backend, self.ordinal)
    }
}

/// Runs the demo; the exit code says whether all was right.
pub fn run(options: &Options) -> ExitCode {
    let mut report = Report::default();
    let clients = match options.find_clients() {
        Ok(clients) => clients,
        Err(reason) => return bad_arguments(&reason),
    };
    let devices = match options.find_devices(&mut report) {
        Ok(devices) => devices,
        Err(reason) => return bad_arguments(&reason),
    };
    let progress = Progress::new(devices.len() * (clients.len() + 1));
    for device in &devices {
        progress.step(device.step(two_streams::CLIENT));
        report.run_here(options, device);
        for client in &clients {
            progress.step(device.step(client.name));
            report.run_client(options, client, device);
        }
    }
    progress.end();
    report.right = report.failures.is_empty() && !report.rows.is_empty();
    if options.json {
        print::json(&report)
    } else {
        report.print()
    }
    ExitCode::from(u8::from(!report.right))
}

fn bad_arguments(reason: &str) -> ExitCode {
    print::note(format!("error: {reason}\n\nFor more information, try '--help'."));
    ExitCode::from(2)
}

impl Options {
    fn find_clients(&self) -> std::result::Result<Vec<Client>, String> {
        let Some(folder) = &self.clients else { return Ok(Vec::new()) };
        let library = match &self.library {
            Some(library) => library.clone(),
            None => beside_this_command("libllaisys_runtime.so")?,
        };
        clients::find(folder, &library)
    }

    /// The devices to run on. That a backend has none is a failure only when it was asked for by name.
    fn find_devices(&self, report: &mut Report) -> std::result::Result<Vec<Device>, String> {
        let candidates = runtime::candidates();
        let wanted = |name: &str| self.device.as_deref().is_none_or(|device| device == name);
        let mut devices = Vec::new();
        for candidate in candidates.iter().filter(|candidate| wanted(&candidate.name)) {
            let found = if candidate.is_taken() {
                runtime::device_names(candidate.device_type).map_err(|error| error.to_string())
            } else {
                Err(format!("{}: {}", candidate.path, candidate.reason))
            };
            let reason = match found {
                Ok(names) if names.is_empty() => "it has no device".to_owned(),
                Ok(names) => {
                    devices.extend((0..).zip(names).map(|(ordinal, name)| Device {
                        backend: candidate.name.clone(),
                        device_type: candidate.device_type,
                        ordinal,
                        name,
                    }));
                    continue;
                }
                Err(reason) => reason,
            };
            report.without_device.push(WithoutDevice { backend: candidate.name.clone(), reason });
        }
        if let (Some(name), true) = (&self.device, devices.is_empty()) {
            if !runtime::is_a_name(name, &candidates) {
                return Err(format!(
                    "no backend is called `{name}`; {}",
                    runtime::names(&candidates)
                ));
            }
            let reason = match report.without_device.pop() {
                Some(WithoutDevice { reason, .. }) => reason,
                None => "no such backend was found; llaisys-rt devices tells more".to_owned(),
            };
            report.fail(None, name, None, reason);
        }
        Ok(devices)
    }
}

fn beside_this_command(name: &str) -> std::result::Result<PathBuf, String> {
    let command = std::env::current_exe().map_err(|error| error.to_string())?;
    let path = command.with_file_name(name);
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!("there is no {}; say --library PATH", path.display()))
    }
}

impl Report {
    fn run_here(&mut self, options: &Options, device: &Device) {
        let moved =
            two_streams::run(device.device_type, device.ordinal, options.mib, options.repeat);
        let (results, reason) = match moved {
            Ok(results) => {
                let reason = row::complaint(&results);
                (results, reason)
            }
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        self.add(two_streams::CLIENT, device, results, reason);
    }

    fn run_client(&mut self, options: &Options, client: &Client, device: &Device) {
        let job = Job {
            backend: &device.backend,
            device: device.ordinal,
            mib: options.mib,
            repeat: options.repeat,
            limit: Duration::from_secs(options.limit),
        };
        let (results, reason) = match client.run(&job) {
            Ok(results) => (results, None),
            Err((results, reason)) => (results, Some(reason)),
        };
        self.add(client.name, device, results, reason);
    }

    fn add(
        &mut self,
        client: &'static str,
        device: &Device,
        results: Vec<Measured>,
        reason: Option<String>,
    ) {
        self.rows.extend(results.into_iter().map(|measured| Row {
            client,
            backend: device.backend.clone(),
            ordinal: device.ordinal,
            device: device.name.clone(),
            measured,
        }));
        if let Some(reason) = reason {
            self.fail(Some(client), &device.backend, Some(device.ordinal), reason);
        }
    }

    fn fail(
        &mut self,
        client: Option<&'static str>,
        backend: &str,
        ordinal: Option<i32>,
        reason: String,
    ) {
        self.failures.push(Failure { client, backend: backend.to_owned(), ordinal, reason });
    }

    fn print(&self) {
        if !self.rows.is_empty() {
            let header = ["device", "client", "memory", "leg", "moved", "GB/s", "data right"];
            let mut table = print::table(&header);
            for row in &self.rows {
                let Measured { leg, memory, bytes, gb_per_s, right, .. } = row.measured;
                table.add_row([
                    format!("{}:{}", row.backend, row.ordinal),
                    row.client.to_owned(),
                    memory.to_string(),
                    leg.to_string(),
                    print::bytes(bytes),
                    format!("{gb_per_s:.2}"),
                    if right { "yes" } else { "NO" }.to_owned(),
                ]);
            }
            for column in [4, 5] {
                if let Some(column) = table.column_mut(column) {
                    column.set_cell_alignment(comfy_table::CellAlignment::Right);
                }
            }
            print::line(table);
        }
        for WithoutDevice { backend, reason } in &self.without_device {
            // The whole reason is in the JSON; `devices`, which is run before, says it as well.
            let first = reason.split("; ").next().unwrap_or_default();
            print::note(format!("not run on {backend}: {first} (llaisys-rt doctor tells more)"));
        }
        for Failure { client, backend, ordinal, reason } in &self.failures {
            let on =
                ordinal.map_or_else(|| backend.clone(), |ordinal| format!("{backend}:{ordinal}"));
            let from = client.map(|client| format!(" from {client}")).unwrap_or_default();
            print::note(format!("failed on {on}{from}: {reason}"));
        }
    }
}
