// Command lab runs the lab by hand and for the demo: see e2e/lab/README.md.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/proxyard/proxyard/e2e/lab"
)

const usage = `usage: lab COMMAND [DIR]
  deps     install the missing Debian packages (apt-get, as root)
  test-deps  the same, with what the tests need beside the lab
  build    build the control plane and the guest image into the cache
  controlplane  build only the control plane, and print its path
  up       start two hosts, the HTTP server and the control plane in the background; builds first
  run      the same in the foreground, until Ctrl-C
  demo     up, with the manager and two Proxies that serve
  status   what is running
  down     end what up or demo started, clean up after a lab that was killed
DIR is the work folder, default "lab" in the cache folder ($PROXYARD_CACHE, else ~/.cache/proxyard).
`

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return command(ctx, os.Args[1:])
}

func command(ctx context.Context, args []string) error {
	if len(args) == 0 || len(args) > 2 {
		return fmt.Errorf("want a command\n%s", strings.TrimSpace(usage))
	}
	dir := ""
	if len(args) == 2 {
		dir = args[1]
	}
	started := time.Now()
	log := logger(os.Stdout, started)
	switch args[0] {
	case "deps":
		return lab.InstallPackages(ctx, log)
	case "test-deps":
		return lab.InstallTestPackages(ctx, log)
	case "build":
		return build(ctx, log)
	case "controlplane":
		return controlplane(ctx, started)
	case "up":
		return background(ctx, "run", dir, log)
	case "demo":
		return background(ctx, "demo-run", dir, log)
	case "demo-run": // what demo starts in the background
		return demo(ctx, dir, log)
	case "run":
		return foreground(ctx, dir, log)
	case "status":
		return status()
	case "down":
		return down(ctx, log)
	default:
		return fmt.Errorf("unknown command %q\n%s", args[0], strings.TrimSpace(usage))
	}
}

// logger prints each line with the seconds since the start.
func logger(out io.Writer, started time.Time) func(format string, args ...any) {
	return func(format string, args ...any) {
		_, _ = fmt.Fprintf(out, "[%5.1fs] %s\n", time.Since(started).Seconds(), fmt.Sprintf(format, args...))
	}
}

// controlplane needs only Go. Its progress goes to stderr, so that a script can take the path.
func controlplane(ctx context.Context, started time.Time) error {
	program, err := lab.BuildControlPlane(ctx, logger(os.Stderr, started))
	if err == nil {
		fmt.Println(program)
	}
	return err
}

func build(ctx context.Context, log func(string, ...any)) error {
	image, err := lab.BuildImage(ctx, log)
	if err != nil {
		return err
	}
	log("guest image %s", image.Path)
	program, err := lab.BuildControlPlane(ctx, log)
	if err != nil {
		return err
	}
	log("control plane %s", program)
	return nil
}
