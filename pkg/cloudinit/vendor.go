package cloudinit

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
)

// bootstrapScript installs and starts the guest agent, and never fails.
//
//go:embed bootstrap.sh
var bootstrapScript []byte

// bootstrapMark is the line by which our own part is known again.
const bootstrapMark = "# proxyard: guest agent"

// appendMergeType makes cloud-init append a part's lists to those of the parts before it, and keep their scalars.
const appendMergeType = "list(append)+dict(no_replace,recurse_list)+str()"

// vendorWithAgent is a vendor-data that brings the guest agent beside the vendor-data given.
//
// A cloud-config of lists serves as long as nothing can bring lists of the same names later. A user-data that may hold or
// fetch a cloud-config of its own can: its packages would replace ours. There the agent comes as a script, which cloud-init
// runs whatever the configuration says.
func vendorWithAgent(user, vendor part) ([]byte, error) {
	if bytes.Contains(vendor.data, []byte(bootstrapMark)) {
		return vendor.data, nil
	}
	lists := !mayHoldConfig(user.kind)
	switch {
	case lists && vendor.config != nil:
		return withAgent(vendor.config, nil)
	case lists && len(vendor.data) == 0:
		return bootstrapConfig()
	case len(vendor.data) == 0:
		return bootstrapScript, nil
	}
	own, kind := bootstrapScript, Script
	if lists {
		config, err := bootstrapConfig()
		if err != nil {
			return nil, err
		}
		own, kind = config, CloudConfig
	}
	return multipart(vendor, own, kind), nil
}

// mayHoldConfig reports whether a user-data of kind k can end in a cloud-config of its own.
func mayHoldConfig(k Kind) bool {
	switch k {
	case Empty, Script, Boothook:
		return false
	default:
		return true
	}
}

func bootstrapConfig() ([]byte, error) {
	d, err := parseConfig(FieldVendorData, []byte("#cloud-config\n"+bootstrapMark+"\n"))
	if err != nil {
		return nil, err
	}
	return withAgent(d, nil)
}

// multipart is a MIME document of the vendor-data given and of ours. The former keeps its bytes: as base64, or, being MIME
// itself, as a nested multipart, since cloud-init unpacks MIME inside any other part not at all.
func multipart(vendor part, own []byte, ownKind Kind) []byte {
	digest := sha256.Sum256(vendor.data)
	boundary := "proxyard-" + hex.EncodeToString(digest[:12])
	if vendor.kind == Gzip {
		vendor.data = gunzip(vendor.data)
		vendor.kind = Classify(vendor.data)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=%q\nMIME-Version: 1.0\n", boundary)
	fmt.Fprintf(&b, "\n--%s\n", boundary)
	if vendor.kind == MIME {
		b.Write(vendor.data)
	} else {
		fmt.Fprintf(&b, "Content-Type: %s; charset=\"utf-8\"\nContent-Transfer-Encoding: base64\n\n", mimeType(vendor.kind))
		writeBase64(&b, vendor.data)
	}
	fmt.Fprintf(&b, "\n--%s\n", boundary)
	fmt.Fprintf(&b, "Content-Type: %s; charset=\"us-ascii\"\nContent-Disposition: attachment; filename=\"proxyard-guest-agent\"\n", mimeType(ownKind))
	if ownKind == CloudConfig {
		fmt.Fprintf(&b, "X-Merge-Type: %s\n", appendMergeType)
	}
	fmt.Fprintf(&b, "\n%s", own)
	fmt.Fprintf(&b, "\n--%s--\n", boundary)
	return b.Bytes()
}

// base64Line is the longest line that MIME allows in base64.
const base64Line = 76

func writeBase64(b *bytes.Buffer, data []byte) {
	text := base64.StdEncoding.EncodeToString(data)
	for text != "" {
		n := min(len(text), base64Line)
		b.WriteString(text[:n] + "\n")
		text = text[n:]
	}
}
