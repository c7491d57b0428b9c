//! The stages of a request.

crate::named! {
    /// A stage that the probes can see. *Reaped* happens in the application and is not visible in the kernel.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Stage {
        Submitted = "submitted",
        Issued = "issued",
        Ready = "ready",
        Ended = "ended",
        Queued = "queued",
        Posted = "posted",
    }
}
