// Package cloudinit judges and completes the cloud-init documents of one machine: user-data, vendor-data and network-config.
//
// cloud-init ignores what it cannot read with a warning inside the guest, so a mistake shows as a machine that boots and does
// nothing. Prepare therefore refuses every document that cloud-init would ignore, naming the line and the remedy, and
// completes a cloud-config with the QEMU guest agent without changing what the user wrote. The controller of a Proxy calls it
// before anything is created; its providers only pass the result on. Classify and MetaData serve the same callers.
//
// What cloud-init means by a document is what PyYAML's safe loader makes of it. PyYAML reads another YAML than Go's parsers
// do (0912345678, 12e4 and y are strings to it, tabs between tokens are errors), so nothing is ever decoded to values and
// encoded again: nodes of go.yaml.in/yaml/v3 say where in the text something stands, and the text is edited there.
// docs/design/0003-cloud-config.md has the reasons. Facts are those of cloud-init 22.4.2 (Debian 12) and 26.2, PyYAML 6.0.
package cloudinit
