//! Headless Chromium, controlled through the pipe of its DevTools protocol (file descriptors 3 and 4; NUL-terminated
//! messages).

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Time limit of a request: more than ten times the longest observed.
const PATIENCE: Duration = Duration::from_secs(120);
const NAMES: [&str; 2] = ["chromium", "chromium-browser"];

pub struct Chromium {
    child: Child,
    ask: File,
    told: Receiver<Value>,
    session: Option<String>,
    last: u64,
    /// Events that arrived outside of a response.
    pub events: Vec<Value>,
    _profile: tempfile::TempDir,
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: `ends` has space for both descriptors, which this process then owns.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0, "{}", std::io::Error::last_os_error());
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

impl Chromium {
    /// `None`: Chromium is not installed.
    pub fn open() -> Option<Self> {
        let path = std::env::var_os("PATH")?;
        let program = std::env::split_paths(&path).flat_map(|p| NAMES.map(|n| p.join(n))).find(|p| p.exists())?;
        let profile = tempfile::tempdir().expect("a temporary folder");
        let ((theirs_in, ours_out), (ours_in, theirs_out)) = (pipe(), pipe());
        let (read, write) = (theirs_in.as_raw_fd(), theirs_out.as_raw_fd());
        let mut command = Command::new(program);
        command
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
            .args(["--remote-debugging-pipe", "--window-size=1400,1000", "about:blank"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // SAFETY: only async-signal-safe calls between fork and exec. Copies above 9 are made first, because either
        // descriptor may be 3 or 4.
        unsafe {
            command.pre_exec(move || {
                let (read, write) = (libc::fcntl(read, libc::F_DUPFD, 10), libc::fcntl(write, libc::F_DUPFD, 10));
                match libc::dup2(read, 3) == 3 && libc::dup2(write, 4) == 4 {
                    true => Ok(()),
                    false => Err(std::io::Error::last_os_error()),
                }
            });
        }
        let child = command.spawn().expect("Chromium starts");
        drop((theirs_in, theirs_out));
        let (tell, told) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(File::from(ours_in)).split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { break };
                if tell.send(message).is_err() {
                    break;
                }
            }
        });
        let mut chromium = Self {
            child,
            ask: File::from(ours_out),
            told,
            session: None,
            last: 0,
            events: Vec::new(),
            _profile: profile,
        };
        let target = chromium.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = chromium.call("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true}));
        chromium.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            chromium.call(&format!("{domain}.enable"), json!({}));
        }
        Some(chromium)
    }

    /// Calls a protocol method and returns its result.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.ask.write_all(&bytes).expect("Chromium listens");
        let began = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(began.elapsed());
            let answer = self.told.recv_timeout(left).unwrap_or_else(|e| panic!("{method}: no answer: {e}"));
            if answer["id"] != json!(self.last) {
                self.events.push(answer);
                continue;
            }
            assert!(answer.get("error").is_none(), "{method}: {}", answer["error"]);
            return answer["result"].clone();
        }
    }

    /// Evaluates an expression in the page; waits for promises.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let got = self.call("Runtime.evaluate", params);
        assert!(got.get("exceptionDetails").is_none(), "{expression}: {}", got["exceptionDetails"]);
        got["result"]["value"].clone()
    }

    /// Evaluates the expression repeatedly until it is true.
    #[track_caller]
    pub fn wait_for(&mut self, expression: &str) -> Value {
        let began = Instant::now();
        loop {
            let value = self.evaluate(expression);
            if !matches!(value, Value::Null | Value::Bool(false)) {
                return value;
            }
            assert!(began.elapsed() < PATIENCE, "waited in vain for {expression}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn go(&mut self, page: &Path) {
        self.call("Page.navigate", json!({"url": format!("file://{}", page.display())}));
        self.wait_for("location.protocol === 'file:' && document.readyState === 'complete'");
    }

    pub fn key(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let code = match key {
                "Tab" => 9,
                "Home" => 36,
                _ => 13,
            };
            self.call(
                "Input.dispatchKeyEvent",
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}),
            );
        }
    }

    pub fn point_at(&mut self, x: f64, y: f64) {
        self.call("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": x, "y": y}));
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // The child processes exit with Chromium. An error means that it has already exited.
        self.child.kill().unwrap_or(());
        self.child.wait().map(drop).unwrap_or(());
    }
}
