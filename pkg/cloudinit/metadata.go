package cloudinit

import "encoding/json"

// MetaData is the meta-data of a seed. cloud-init takes a seed for valid only if it has one, and applies the user-data anew
// whenever instanceID changes. It is JSON, which is YAML too, so that an ID such as 1e5 stays a string.
func MetaData(instanceID, hostname string) []byte {
	out, err := json.Marshal(map[string]string{"instance-id": instanceID, "local-hostname": hostname})
	if err != nil {
		panic(err) // two strings always marshal
	}
	return append(out, '\n')
}
