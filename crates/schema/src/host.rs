//! The machine of a measurement.

use iotrail_base::words::numbers;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu_model: String,
    /// Online CPUs.
    pub cpus: u32,
    /// The load's target; null without a file.
    pub target: Option<Target>,
    /// The kernel's clock source; null: not known.
    pub clock_source: Option<String>,
    /// `none`, `integrity`, `confidentiality`; null: not known.
    pub lockdown: Option<String>,
    /// The hypervisor's name, `none` on bare metal; null: not known.
    pub virtualisation: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The file or device.
    pub path: String,
    /// File system type; null for a device.
    pub filesystem: Option<String>,
    /// The whole disk: `vda`; null: the file is not on a block device.
    pub device: Option<String>,
    /// The disk's driver.
    pub driver: Option<String>,
    /// The disk's model as the disk reports it; omitted if it reports none (virtio).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The block device whose queue receives the requests, if different from `device`: `loop0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_device: Option<String>,
    /// Hardware queues of the device that receives the requests.
    pub queues: Option<u32>,
    /// Polled queues among them.
    pub poll_queues: Option<u32>,
    /// I/O scheduler of the device that receives the requests.
    pub scheduler: Option<String>,
    /// Interrupts for the disk's completions.
    pub interrupts: Vec<TargetInterrupt>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetInterrupt {
    /// Its number.
    pub irq: u32,
    /// Its name in /proc/interrupts.
    pub name: String,
    /// CPUs to which the interrupt is currently delivered (effective affinity).
    pub cpus: Vec<u32>,
}

/// `36 virtio1-req.0 on CPU 1`.
impl std::fmt::Display for TargetInterrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} on CPU {}", self.irq, self.name, numbers(&self.cpus))
    }
}

impl Host {
    /// The machine is emulated (QEMU without KVM, `host::virtualisation`): counts are valid there, times are not.
    pub fn is_emulated(&self) -> bool {
        self.virtualisation.as_deref() == Some("qemu")
    }
}

impl Target {
    /// The block devices whose queues take the load's requests, joined by `+`; `None`: there are none.
    pub fn queue_device(&self) -> Option<&str> {
        self.queue_device.as_deref().or(self.device.as_deref())
    }
}
