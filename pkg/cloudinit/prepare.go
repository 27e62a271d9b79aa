package cloudinit

import "fmt"

// AgentMode says what is done about the QEMU guest agent.
type AgentMode string

// The agent modes.
const (
	// AgentInstall adds the agent's package and its start.
	AgentInstall AgentMode = "Install"
	// AgentPreinstalled and AgentNone leave every document as it is.
	AgentPreinstalled AgentMode = "Preinstalled"
	AgentNone         AgentMode = "None"
)

// Names of the documents, as Error.Field has them.
const (
	FieldUserData      = "userData"
	FieldVendorData    = "vendorData"
	FieldNetworkConfig = "networkConfig"
)

// Documents are what a seed hands to cloud-init beside the meta-data. A nil or zero-length document means: none given.
type Documents struct{ UserData, VendorData, NetworkConfig []byte }

// Error says that a document is one that cloud-init would ignore, or that cannot be completed safely. Trying again with the
// same document gives the same error.
type Error struct {
	// Field is the document: FieldUserData, FieldVendorData or FieldNetworkConfig.
	Field string
	// Line is where the fault was seen, from 1; 0 when no line can be named.
	Line int
	// Msg names the fault and the remedy. It never quotes values of the document, which may be secrets.
	Msg string
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s line %d: %s", e.Field, e.Line, e.Msg)
	}
	return fmt.Sprintf("%s: %s", e.Field, e.Msg)
}

// Prepare validates all documents and, in AgentInstall mode, sees to it that the guest agent is installed and started.
//
// The agent goes into a user-data that is a cloud-config; the vendor-data is then passed on as it is. Any other user-data
// keeps its bytes and the agent travels as vendor-data, beside the vendor-data given. Preparing a prepared set changes
// nothing. A document that cloud-init would ignore gives an *Error.
func Prepare(in Documents, mode AgentMode) (Documents, error) {
	user, err := inspect(FieldUserData, in.UserData)
	if err != nil {
		return Documents{}, err
	}
	vendor, err := inspect(FieldVendorData, in.VendorData)
	if err != nil {
		return Documents{}, err
	}
	if err := checkNetwork(in.NetworkConfig); err != nil {
		return Documents{}, err
	}
	out := in
	switch {
	case mode != AgentInstall:
	case user.config != nil:
		out.UserData, err = withAgent(user.config, inherited(user.config, vendor.config))
	default:
		out.VendorData, err = vendorWithAgent(user, vendor)
	}
	if err != nil {
		return Documents{}, err
	}
	return out, nil
}

// part is a user-data or vendor-data that was looked into.
type part struct {
	data []byte
	kind Kind
	// config is set when kind is CloudConfig.
	config *document
}

// inspect refuses what cloud-init would ignore.
func inspect(field string, data []byte) (part, error) {
	p := part{data: data, kind: Classify(data)}
	if len(data) == 0 {
		return p, nil
	}
	var err error
	switch p.kind {
	case Empty:
		err = &Error{Field: field, Line: 1, Msg: "holds nothing but white space: remove it, or begin it with #cloud-config"}
	case Unrecognised:
		err = diagnose(field, data)
	case CloudConfig:
		p.config, err = parseConfig(field, data)
	case Gzip:
		err = checkGzip(field, data)
	default:
		err = checkText(field, data)
	}
	return p, err
}
