#!/bin/bash
# The first process of a lab host, inside its own network, mount and process namespace. $1: the host's folder, $2: its /run.
# It starts the daemons and then only waits: bash collects the orphans that a first process inherits, and when it dies, the kernel
# kills all the others. libvirtd is no such first process, so that it can be killed while the guests run on.
set -euo pipefail
base=$1 run=$2
mount --bind "$base/libvirt-etc" /etc/libvirt
mount --bind "$base/libvirt-lib" /var/lib/libvirt
mount --bind "$base/libvirt-cache" /var/cache/libvirt
mount --bind "$base/libvirt-log" /var/log/libvirt
# sshd without PAM refuses a locked account, and root is locked on many machines.
mount --bind "$base/ssh/shadow" /etc/shadow
mount --bind "$run" /run
mkdir -p /run/libvirt /run/lock /run/sshd
virtlogd -d
/usr/sbin/sshd -f "$base/ssh/sshd_config" -E "$base/libvirt-log/sshd.log"
libvirtd -d -l
touch /run/lab.ready
trap 'exit 0' TERM
while :; do
  sleep infinity &
  wait $!
done
