package simulated

import (
	"time"

	"github.com/proxyard/proxyard/providers"
)

// imageSource is what a download gives.
type imageSource struct {
	err  error
	size int64 // virtual size in bytes; 0: the provider's default
	time *time.Duration
}

// cachedImage is a host's copy: being downloaded, good, or failed with what the next Create reports.
type cachedImage struct {
	downloading bool
	owner       *Provider
	size        int64
	err         error
}

// Failures of an image, for Faults.Image. All are Invalid: another try gives the same.
var (
	ErrImageNotFound    error = &providers.Error{Kind: providers.Invalid, Reason: "ImageNotFound", Msg: "image: the server answers 404"}
	ErrImageChecksum    error = &providers.Error{Kind: providers.Invalid, Reason: "ImageChecksumMismatch", Msg: "image: the bytes have another checksum"}
	ErrImageUnsupported error = &providers.Error{Kind: providers.Invalid, Reason: "ImageInvalid", Msg: "image: it is neither qcow2 nor raw"}
)

// ensureImage makes the host have the image, in the background when that takes time.
func (p *Provider) ensureImage(h *hostState, m providers.Machine) error {
	img := h.images[m.Image.Checksum]
	if img == nil {
		img = p.download(h, m)
	}
	switch {
	case img.downloading:
		return &providers.Error{Kind: providers.InProgress, Reason: "DownloadingImage", Host: h.name, Msg: "downloading image " + m.Image.URL}
	case img.err != nil:
		delete(h.images, m.Image.Checksum) // a failed download leaves nothing; asking again downloads again
		return img.err
	case m.Resources.DiskBytes < img.size:
		return invalid("DiskTooSmall", "resources.disk of %d bytes is smaller than the image's virtual size of %d bytes", m.Resources.DiskBytes, img.size)
	}
	return nil
}

func (p *Provider) download(h *hostState, m providers.Machine) *cachedImage {
	src := p.world.images[m.Image.URL]
	if src == nil {
		src = &imageSource{}
	}
	img := &cachedImage{downloading: true, owner: p, size: src.size}
	if img.size == 0 {
		img.size = p.opt.ImageSize
	}
	d := p.opt.ImageTime
	if src.time != nil {
		d = *src.time
	}
	h.images[m.Image.Checksum] = img
	id := machineID(p.opt.ClusterID, m.Tag.UID, m.Host)
	p.world.after(d, p, func() {
		img.downloading, img.err = false, src.err
		if d > 0 {
			p.world.pending = append(p.world.pending, change{host: h.name, id: id, cluster: p.opt.ClusterID})
		}
	})
	return img
}

// dropDownloads forgets what p was downloading: a half-written image never counts.
func (h *hostState) dropDownloads(p *Provider) {
	for sum, img := range h.images {
		if img.downloading && img.owner == p {
			delete(h.images, sum)
		}
	}
}
