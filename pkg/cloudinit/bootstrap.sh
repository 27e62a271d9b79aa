#!/bin/sh
# proxyard: guest agent
# Installs and starts the QEMU guest agent. Nothing here may fail or hold up the boot for good.
name=qemu-guest-agent
{
  if ! command -v qemu-ga && ! [ -x /usr/sbin/qemu-ga ]; then
    if command -v apt-get; then
      export DEBIAN_FRONTEND=noninteractive
      options='-o DPkg::Lock::Timeout=300 -o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30'
      apt-get $options update
      apt-get $options -y --no-install-recommends install $name
    elif command -v dnf; then
      dnf -y install $name
    elif command -v yum; then
      yum -y install $name
    elif command -v zypper; then
      zypper --non-interactive install $name
    elif command -v apk; then
      apk add $name
    elif command -v pacman; then
      pacman -Sy --noconfirm $name
    fi
  fi
  if command -v systemctl; then
    systemctl enable $name
    systemctl start --no-block $name
  elif command -v rc-service; then
    rc-update add $name
    rc-service $name start
  fi
} </dev/null
exit 0
