/// What fails of a copy's measuring before it.
pub const PROBE: &str = "probe";
/// What fails where the place that `doctor` is told is not reached.
pub const MEASURE_PATH: &str = "measure the path of --to";
/// What fails where a copy that runs does not say how far it is.
pub const ASK_COPY: &str = "ask the copy";
/// What fails where another daemon has the state directory.
pub const TAKE_STATE: &str = "take the state directory";
/// What fails where another hub has the directory.
pub const TAKE_HUB_DIRECTORY: &str = "take the hub's directory";
/// What fails of a watch.
pub const WATCH: &str = "watch";
/// What fails where what a watch runs is no program.
pub const FIND_PROGRAM: &str = "find the program to run";
/// What fails where what works with threads is used in a process that has none of them.
pub const USE_IN_FORK: &str = "use in a fork";
