package image

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/proxyard/proxyard/providers"
)

// Reasons of the errors of this package.
const (
	// ReasonInvalid: what arrived is no usable image.
	ReasonInvalid = "ImageInvalid"
	// ReasonNotFound: the server says that there is nothing at the URL, or not for us.
	ReasonNotFound = "ImageNotFound"
	// ReasonUnavailable: the server cannot be asked, or broke off.
	ReasonUnavailable = "ImageUnavailable"
	// ReasonChecksum: other bytes than the checksum names.
	ReasonChecksum = "ImageChecksumMismatch"
)

// stallTimeout ends a download that makes no progress: a server that keeps the connection open and sends nothing would hold
// the transfer for ever otherwise.
const stallTimeout = 60 * time.Second

// Stream is an image on its way: Read until io.EOF, then Verify, and Close in any case.
type Stream struct {
	Header Header
	// Size in bytes, -1 when the server does not tell.
	Size int64

	url    string
	sum    string
	hash   hash.Hash
	count  int64
	body   io.ReadCloser
	buf    *bufio.Reader
	stall  *time.Timer
	cancel context.CancelCauseFunc
}

var errStalled = errors.New("no data for " + stallTimeout.String())

// Open asks for an image and looks at its first bytes.
//
// Errors: Invalid (ImageNotFound, ImageInvalid), Internal (ImageUnavailable).
func Open(ctx context.Context, client *http.Client, img providers.Image) (*Stream, error) {
	h, err := newHash(img.Checksum)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s := &Stream{url: redact(img.URL), sum: img.Checksum, hash: h, cancel: cancel}
	s.stall = time.AfterFunc(stallTimeout, func() { cancel(errStalled) })
	if err := s.get(ctx, client, img.URL); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Stream) get(ctx context.Context, client *http.Client, rawURL string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, rawURL, http.NoBody)
	if err != nil {
		return &providers.Error{Kind: providers.Invalid, Reason: ReasonInvalid, Msg: fmt.Sprintf("image.url %q is no URL", s.url)}
	}
	// A compressed transfer would have another length than the image.
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := client.Do(req) //nolint:bodyclose // the stream's Close closes it
	if err != nil {
		return s.unavailable(context.Cause(ctx), err)
	}
	s.body, s.Size = resp.Body, resp.ContentLength
	if resp.StatusCode != http.StatusOK {
		return s.refused(resp.StatusCode)
	}
	s.buf = bufio.NewReaderSize(resp.Body, 256<<10)
	head, err := s.buf.Peek(headerSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return s.unavailable(context.Cause(ctx), err)
	}
	s.Header, err = Detect(head)
	return err
}

// refused separates what asking again cannot change from what it can.
func (s *Stream) refused(status int) error {
	e := &providers.Error{Kind: providers.Internal, Reason: ReasonUnavailable, Msg: fmt.Sprintf("image %s: the server answers %d %s", s.url, status, http.StatusText(status))}
	switch status {
	case http.StatusNotFound, http.StatusGone, http.StatusUnauthorized, http.StatusForbidden:
		e.Kind, e.Reason = providers.Invalid, ReasonNotFound
	}
	return e
}

func (s *Stream) unavailable(cause, err error) error {
	if cause != nil && errors.Is(cause, errStalled) {
		err = cause
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // the URL is named already, without what it may carry of secrets
	}
	return &providers.Error{Kind: providers.Internal, Reason: ReasonUnavailable, Msg: "image " + s.url, Err: err}
}

// Read hands on the image and remembers what went by. An early end of the body is an error, never an EOF.
func (s *Stream) Read(p []byte) (int, error) {
	n, err := s.buf.Read(p)
	if n > 0 {
		s.stall.Reset(stallTimeout)
		s.hash.Write(p[:n])
		s.count += int64(n)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = s.unavailable(nil, err)
	}
	return n, err
}

// Count is how many bytes went by.
func (s *Stream) Count() int64 { return s.count }

// Verify says whether the bytes that went by are the image, to be asked after EOF.
//
// Errors: Internal (ImageUnavailable: too few), Invalid (ImageChecksumMismatch).
func (s *Stream) Verify() error {
	if s.Size >= 0 && s.count != s.Size {
		return &providers.Error{Kind: providers.Internal, Reason: ReasonUnavailable, Msg: fmt.Sprintf("image %s: %d of %d bytes arrived", s.url, s.count, s.Size)}
	}
	algorithm, want, _ := strings.Cut(s.sum, ":")
	if got := hex.EncodeToString(s.hash.Sum(nil)); got != want {
		return &providers.Error{Kind: providers.Invalid, Reason: ReasonChecksum, Msg: fmt.Sprintf("image %s has %s %s, but image.checksum says %s", s.url, algorithm, got, want)}
	}
	return nil
}

// Close ends the transfer.
func (s *Stream) Close() {
	s.stall.Stop()
	s.cancel(context.Canceled)
	if s.body != nil {
		_ = s.body.Close() // nothing can be done about it, and Verify has judged already
	}
}

func newHash(checksum string) (hash.Hash, error) {
	switch algorithm, digest, _ := strings.Cut(checksum, ":"); {
	case algorithm == "sha256" && len(digest) == 2*sha256.Size:
		return sha256.New(), nil
	case algorithm == "sha512" && len(digest) == 2*sha512.Size:
		return sha512.New(), nil
	}
	return nil, &providers.Error{Kind: providers.Invalid, Reason: ReasonInvalid, Msg: fmt.Sprintf("image.checksum %q is neither sha256:<64 hex digits> nor sha512:<128 hex digits>", checksum)}
}

// redact drops what a URL may carry of secrets: user, query and fragment.
func redact(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(unreadable URL)"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
