package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ProbeURL answers 204 and nothing else: the target of a probe through a proxy.
var ProbeURL = fmt.Sprintf("http://%s:%d/generate_204", Address, HTTPPort)

// Serve starts the lab's HTTP server on Address:HTTPPort. Close ends it.
//
//	/generate_204   204 No Content
//	/client         the address of the client: through a proxy, the proxy's
//	/images/        the guest image
//	/apt/           the apt repository
func (l *Lab) Serve(ctx context.Context) error {
	image, err := l.Image(ctx)
	if err != nil {
		return err
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", net.JoinHostPort(Address, strconv.Itoa(HTTPPort)))
	if err != nil {
		return fmt.Errorf("HTTP server of the lab: %w", err)
	}
	server := &http.Server{Handler: handler(image), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	l.onClose(func() error {
		closed := server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			return errors.Join(err, closed)
		}
		return closed
	})
	l.log("HTTP server at http://%s", listener.Addr())
	return nil
}

func handler(image Image) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /generate_204", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /client", func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		_, _ = fmt.Fprintln(w, host) //nolint:gosec // G705: an address of the kernel's is no script
	})
	mux.HandleFunc("GET /images/"+filepath.Base(image.Path), func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, image.Path)
	})
	mux.Handle("GET /apt/", http.StripPrefix("/apt/", http.FileServer(http.Dir(image.AptDir))))
	return cleanPaths(mux)
}

// cleanPaths answers apt's requests for /apt/./x itself. The mux would redirect them to /apt/x, and apt escapes the address of a
// redirect once more: every package with a + or ~ in its version would be missing.
func cleanPaths(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		clean := path.Clean(r.URL.Path)
		if strings.HasSuffix(r.URL.Path, "/") && clean != "/" {
			clean += "/"
		}
		r.URL.Path, r.URL.RawPath = clean, ""
		next.ServeHTTP(w, r)
	})
}
