//! Where backends are looked for, and where never (P1), and which must be there (P5).

use crate::case::Area;
use crate::context::Context;
use crate::folder::Folder;
use crate::outcome::{Checked, Stop};
use crate::plugin_file::{Survey, Workshop};
use llaisys_runtime_core::Status;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

cases! { Area::Plugins;
    "P1" a_list_of_files_is_exclusive [Compiler];
    "P1" folders_are_searched_in_their_order_by_the_pattern_of_the_name [Compiler];
    "P1" the_folder_of_the_library_is_searched [Compiler];
    "P1" the_working_directory_is_never_searched [Compiler];
    "P1" a_relative_path_is_never_loaded [Compiler];
    "P1" nothing_is_opened_before_somebody_asks [Compiler];
    "P1" what_everybody_may_write_is_refused [Compiler];
    "P1" a_folder_that_everybody_may_write_is_refused_unless_it_is_sticky [Compiler];
    "P1" a_link_is_judged_by_where_it_leads [Compiler];
    "P1" what_belongs_to_somebody_else_is_refused [Compiler, Root];
    "P1" raised_privileges_ignore_the_environment [Compiler, Root];
    "P1" raised_privileges_refuse_what_a_group_may_write [Compiler, Root];
    "P1" a_folder_that_cannot_be_read_leaves_a_record [Compiler];
    "P5" a_required_backend_that_is_missing_is_an_error [Compiler];
    "P5" a_required_backend_without_devices_is_an_error [Compiler];
    "P5" a_required_backend_that_is_there_is_none [Compiler];
}

/// The names of the backends in use that are not built in, in the order in which they were found.
fn used(survey: &Survey, index: usize) -> Checked<Vec<String>> {
    let records = survey.candidates(index)?;
    let used = records.iter().filter(|record| record["code"] == 0);
    Ok(used.map(|record| record["name"].as_str().unwrap_or_default().to_owned()).collect())
}

fn names(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Two plugins in two folders, and a file whose name does not fit.
fn two_folders(shop: &Workshop) -> Checked {
    shop.folder.folder("one")?;
    shop.folder.folder("two")?;
    shop.plugin("one/libllaisys_backend_beta.so", &["NAME=\"beta\""])?;
    shop.plugin("one/libllaisys_backend_alpha.so", &["NAME=\"alpha\""])?;
    shop.plugin("two/libllaisys_backend_gamma.so", &["NAME=\"gamma\""])?;
    shop.plugin("two/libanother_backend_delta.so", &["NAME=\"delta\""])?;
    shop.plugin("two/libllaisys_backend_epsilon.so.1", &["NAME=\"epsilon\""])?;
    Ok(())
}

/// The library under test, alone in a folder, so that nothing lies beside it.
fn alone(context: &'static Context, shop: &Workshop) -> Checked<std::path::PathBuf> {
    shop.folder.folder("alone")?;
    shop.folder.copy(&context.setup.library, "alone/libllaisys_runtime.so")
}

fn a_list_of_files_is_exclusive(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    two_folders(&shop)?;
    let list = shop.plugin("named.so", &["NAME=\"named\""])?;
    let launch = shop.launch("survey").env("LLAISYS_BACKENDS", list);
    let launch = launch.env("LLAISYS_BACKEND_PATH", shop.folder.file("one"));
    let survey = shop.survey(launch, &["candidates"])?;
    ensure_eq!(used(&survey, 0)?, names(&["named"]), "the backends in use");
    ensure_eq!(survey.candidates(0)?.len(), 1, "the number of files that were looked at");
    // An empty list is a list too: nothing beside the library is looked at.
    let survey = shop.survey(shop.launch("survey").env("LLAISYS_BACKENDS", ""), &["candidates"])?;
    ensure_eq!(survey.candidates(0)?.len(), 0, "the files of an empty list");
    Ok(())
}

fn folders_are_searched_in_their_order_by_the_pattern_of_the_name(
    context: &'static Context,
) -> Checked {
    let shop = Workshop::new(context)?;
    two_folders(&shop)?;
    let library = alone(context, &shop)?;
    for (order, right) in
        [(["two", "one"], ["gamma", "alpha", "beta"]), (["one", "two"], ["alpha", "beta", "gamma"])]
    {
        let path = order.map(|name| shop.folder.file(name).display().to_string()).join(":");
        let launch = shop.launch("survey").library(&library).env("LLAISYS_BACKEND_PATH", path);
        let survey = shop.survey(launch, &["candidates", "name=32", "cpu"])?;
        ensure_eq!(used(&survey, 0)?, names(&right), "the backends of {order:?}, in order");
        ensure_eq!(survey.answer(1)?["name"], right[0], "the first that was given a number");
        survey.expect_cpu(2)?;
    }
    Ok(())
}

fn the_folder_of_the_library_is_searched(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let library = alone(context, &shop)?;
    shop.plugin("alone/libllaisys_backend_beside.so", &["NAME=\"beside\""])?;
    let launch = shop.launch("survey").library(&library);
    let survey = shop.survey(launch, &["candidates", "use=32"])?;
    ensure_eq!(used(&survey, 0)?, names(&["beside"]), "the backends beside the library");
    survey.expect(1, Status::Success, "")?;
    // Through a link to the library, it is the folder of the real file.
    shop.folder.folder("elsewhere")?;
    let link = shop.folder.link(&library, "elsewhere/libllaisys_runtime.so")?;
    let survey = shop.survey(shop.launch("survey").library(&link), &["candidates"])?;
    ensure_eq!(used(&survey, 0)?, names(&["beside"]), "the backends, through a link");
    Ok(())
}

fn the_working_directory_is_never_searched(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let library = alone(context, &shop)?;
    let folder = shop.folder.folder("working")?;
    shop.plugin("working/libllaisys_backend_trap.so", &["NAME=\"trap\""])?;
    for (variable, value) in [
        ("LLAISYS_BACKEND_PATH", ""),
        ("LLAISYS_BACKEND_PATH", ":"),
        ("LLAISYS_BACKEND_PATH", "::/nowhere:"),
        ("LLAISYS_BACKEND_PATH", "."),
        ("LLAISYS_BACKEND_PATH", "./"),
        ("LLAISYS_BACKENDS", ":"),
        ("LLAISYS_BACKENDS", "libllaisys_backend_trap.so"),
        ("LLAISYS_BACKENDS", "./libllaisys_backend_trap.so"),
        ("LLAISYS_UNUSED", ""),
    ] {
        let launch = shop.launch("survey").library(&library).in_folder(&folder);
        // The system's own search must not lead there either.
        let launch = launch.env(variable, value).env("LD_LIBRARY_PATH", "");
        let survey = shop.survey(launch, &["candidates", "cpu"])?;
        let found = used(&survey, 0)?;
        ensure!(found.is_empty(), "{variable}={value:?}: {found:?} of the working directory");
        survey.expect_cpu(1)?;
    }
    Ok(())
}

fn a_relative_path_is_never_loaded(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    shop.plugin("trap.so", &["NAME=\"trap\""])?;
    for path in ["trap.so", "./trap.so", "../trap.so", "folder/../trap.so"] {
        let launch = shop.launch("survey").in_folder(shop.folder.path());
        let survey = shop.survey(launch, &[&format!("load={path}"), "cpu"])?;
        survey.expect(0, Status::BackendRefused, "relative")?;
        survey.expect_cpu(1)?;
    }
    Ok(())
}

fn nothing_is_opened_before_somebody_asks(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    // A plugin whose constructor ends the process: whoever opens it is gone.
    let deadly = shop.plugin("deadly.so", &["CONSTRUCTOR=_Exit(66)"])?;
    let launch = shop.launch("survey").env("LLAISYS_BACKENDS", &deadly);
    // The built-in backend, and numbers of types, need no plugin.
    let survey = shop.survey(launch, &["cpu", "count=0", "table=0", "name=1"])?;
    survey.expect_cpu(0)?;
    let launch = shop.launch("survey").env("LLAISYS_BACKENDS", &deadly);
    let ended = launch.argument("candidates").run()?;
    ensure_eq!(ended.code, Some(66), "the proof that the constructor works; {}", ended.story());
    Ok(())
}

/// Loads a file by an explicit call and by the environment; both refuse it with these words.
fn refused(shop: &Workshop, path: &Path, words: &str) -> Checked {
    let launch = shop.launch("survey").env("LLAISYS_BACKENDS", path);
    let load = format!("load={}", path.display());
    let survey = shop.survey(launch, &["candidates", &load, "cpu"])?;
    let records = survey.candidates(0)?;
    let message = records.first().map(|record| record["message"].to_string());
    let message = message.ok_or_else(|| Stop::fail("no record of the file"))?;
    ensure!(message.contains(words), "expected {words:?} in the record, found {message}");
    ensure!(used(&survey, 0)?.is_empty(), "{} was loaded", path.display());
    survey.expect(1, Status::BackendRefused, words)?;
    survey.expect_cpu(2)
}

fn loaded(shop: &Workshop, path: &Path) -> Checked {
    let load = format!("load={}", path.display());
    shop.survey(shop.launch("survey"), &[&load])?.expect(0, Status::Success, "")
}

fn what_everybody_may_write_is_refused(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let file = shop.plugin("open.so", &["NAME=\"open\""])?;
    loaded(&shop, &file)?;
    for mode in [0o777, 0o757, 0o666, 0o702] {
        shop.folder.set_mode("open.so", mode)?;
        refused(&shop, &file, "everybody may write")?;
    }
    // A group may, in a process without raised privileges.
    shop.folder.set_mode("open.so", 0o775)?;
    loaded(&shop, &file)
}

fn a_folder_that_everybody_may_write_is_refused_unless_it_is_sticky(
    context: &'static Context,
) -> Checked {
    let shop = Workshop::new(context)?;
    shop.folder.folder("outer")?;
    shop.folder.folder("outer/inner")?;
    let file = shop.plugin("outer/inner/alpha.so", &["NAME=\"alpha\""])?;
    loaded(&shop, &file)?;
    for folder in ["outer", "outer/inner"] {
        shop.folder.set_mode(folder, 0o777)?;
        refused(&shop, &file, "everybody may write")?;
        shop.folder.set_mode(folder, 0o1777)?;
        loaded(&shop, &file)?;
        shop.folder.set_mode(folder, 0o755)?;
    }
    Ok(())
}

fn a_link_is_judged_by_where_it_leads(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let open = shop.folder.folder("open")?;
    shop.folder.folder("closed")?;
    let trap = shop.plugin("open/trap.so", &["NAME=\"trap\""])?;
    let good = shop.plugin("closed/good.so", &["NAME=\"good\""])?;
    let to_trap = shop.folder.link(&trap, "closed/link.so")?;
    let through = shop.folder.link(&open, "closed/folder")?.join("trap.so");
    let to_good = shop.folder.link(&good, "open/link.so")?;
    shop.folder.set_mode("open", 0o777)?;
    refused(&shop, &to_trap, "everybody may write")?;
    refused(&shop, &through, "everybody may write")?;
    // The real file is what counts; who may write the link could as well name another file.
    loaded(&shop, &to_good)
}

/// Gives a file to another user.
fn give_away(path: &Path, user: u32) -> Checked {
    std::os::unix::fs::chown(path, Some(user), None)
        .map_err(|error| Stop::skip(format!("{}: {error}", path.display())))
}

/// A user who is nobody else's.
const STRANGER: u32 = 54_321;

fn what_belongs_to_somebody_else_is_refused(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let folder = shop.folder.folder("inner")?;
    let file = shop.plugin("inner/alpha.so", &["NAME=\"alpha\""])?;
    give_away(&file, STRANGER)?;
    refused(&shop, &file, &STRANGER.to_string())?;
    give_away(&file, 0)?;
    loaded(&shop, &file)?;
    give_away(&folder, STRANGER)?;
    refused(&shop, &file, &STRANGER.to_string())?;
    give_away(&folder, 0)?;
    loaded(&shop, &file)
}

/// A survey by a copy of this program that has the superuser's rights and is started by another user.
fn privileged(
    context: &'static Context,
    shop: &Workshop,
    variables: &[(&str, &Path)],
    commands: &[&str],
) -> Checked<Survey> {
    let library = alone(context, shop)?;
    let copy = shop.folder.copy(&context.setup.executable, "raised")?;
    shop.folder.set_mode("raised", 0o4755)?;
    let user = STRANGER.to_string();
    let wrapper =
        ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups", "--inh-caps=-all"];
    let mut launch = shop.launch("survey").library(&library).wrapped(&wrapper, &copy);
    for (name, value) in variables {
        launch = launch.env(name, value);
    }
    let all: Vec<&str> = ["secure"].iter().chain(commands).copied().collect();
    let survey = shop.survey(launch, &all)?;
    if survey.answer(0)?["secure"] == 0 {
        return Err(Stop::skip(
            "set-user-id does not work here (AT_SECURE is 0 in such a process)",
        ));
    }
    Ok(survey)
}

fn raised_privileges_ignore_the_environment(context: &'static Context) -> Checked {
    let shop = Workshop::within(context, Folder::of_the_superuser("plugins")?)?;
    let folder = shop.folder.folder("named")?;
    let trap = shop.plugin("named/libllaisys_backend_trap.so", &["NAME=\"trap\""])?;
    for (variable, value) in [("LLAISYS_BACKENDS", &trap), ("LLAISYS_BACKEND_PATH", &folder)] {
        let survey = privileged(context, &shop, &[(variable, value)], &["candidates", "cpu"])?;
        let found = survey.candidates(1)?;
        ensure!(found.is_empty(), "{variable} was believed under AT_SECURE: {found:?}");
        survey.expect_cpu(2)?;
    }
    let required = Path::new("nobody");
    let survey = privileged(context, &shop, &[("LLAISYS_REQUIRE", required)], &["cpu"])?;
    survey.expect_cpu(1)
}

fn raised_privileges_refuse_what_a_group_may_write(context: &'static Context) -> Checked {
    let shop = Workshop::within(context, Folder::of_the_superuser("plugins")?)?;
    let file = shop.plugin("alpha.so", &["NAME=\"alpha\""])?;
    let load = format!("load={}", file.display());
    privileged(context, &shop, &[], &[&load])?.expect(1, Status::Success, "")?;
    shop.folder.set_mode("alpha.so", 0o775)?;
    let survey = privileged(context, &shop, &[], &[&load])?;
    survey.expect(1, Status::BackendRefused, "a group may write")?;
    shop.folder.set_mode("alpha.so", 0o755)?;
    shop.folder.set_mode("", 0o775)?;
    let survey = privileged(context, &shop, &[], &[&load])?;
    survey.expect(1, Status::BackendRefused, "a group may write")
}

fn a_folder_that_cannot_be_read_leaves_a_record(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let library = alone(context, &shop)?;
    let launch = shop.launch("survey").library(&library);
    let launch = launch.env("LLAISYS_BACKEND_PATH", "/nowhere/at/all");
    let survey = shop.survey(launch, &["candidates", "cpu"])?;
    let records = survey.candidates(0)?;
    let told = records.iter().any(|record| record["path"] == "/nowhere/at/all");
    ensure!(told, "no record of a folder that is not there: {records:?}");
    survey.expect_cpu(1)
}

fn a_required_backend_that_is_missing_is_an_error(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    for list in ["nobody", "cpu,nobody", "nobody,cpu", " nobody "] {
        let launch = shop.launch("survey").env("LLAISYS_BACKENDS", "");
        let launch = launch.env("LLAISYS_REQUIRE", list);
        let survey = shop.survey(launch, &["use=0", "table=0", "count=0", "table=1"])?;
        for index in [0, 1, 3] {
            survey.expect(index, Status::BackendUnavailable, "nobody")?;
        }
        ensure_eq!(survey.number(2, "count")?, 0, "the quiet count with {list:?} required");
        survey.expect(2, Status::BackendUnavailable, "nobody")?;
    }
    Ok(())
}

fn a_required_backend_without_devices_is_an_error(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let none = shop.plugin("none.so", &["NAME=\"none\"", "DEVICES=0"])?;
    let launch = shop.launch("survey").env("LLAISYS_BACKENDS", none);
    let survey = shop.survey(launch.env("LLAISYS_REQUIRE", "none"), &["use=0"])?;
    survey.expect(0, Status::BackendUnavailable, "none")?;
    let defines = ["NAME=\"old\"", "COUNT_STATUS=LLAISYS_STATUS_DRIVER_TOO_OLD"];
    let old = shop.plugin("old.so", &defines)?;
    let launch = shop.launch("survey").env("LLAISYS_BACKENDS", old);
    let survey = shop.survey(launch.env("LLAISYS_REQUIRE", "old"), &["use=0"])?;
    survey.expect(0, Status::DriverTooOld, "on purpose")
}

fn a_required_backend_that_is_there_is_none(context: &'static Context) -> Checked {
    let shop = Workshop::new(context)?;
    let alpha = shop.plugin("alpha.so", &["NAME=\"alpha\""])?;
    let executable = std::fs::metadata(&alpha).map_err(|error| Stop::skip(error.to_string()))?;
    ensure!(executable.permissions().mode() & 0o002 == 0, "the umask lets everybody write");
    for list in ["cpu", "alpha", "alpha,cpu", "cpu:alpha", "", " ,cpu, "] {
        let launch = shop.launch("survey").env("LLAISYS_BACKENDS", &alpha);
        let survey = shop.survey(launch.env("LLAISYS_REQUIRE", list), &["cpu", "use=32"])?;
        survey.expect_cpu(0)?;
        survey.expect(1, Status::Success, "").map_err(|stop| stop.at(format!("{list:?}")))?;
    }
    // The list of commands of a survey is what it says.
    let survey = shop.survey(shop.launch("survey").env("LLAISYS_BACKENDS", ""), &["count=32"])?;
    ensure_eq!(survey.answer(0)?["count"], Value::from(0), "the devices of a number without owner");
    Ok(())
}
