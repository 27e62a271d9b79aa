package cloudinit

import "go.yaml.in/yaml/v3"

// checkNetwork wants a network-config of version 1 or 2, with or without a "network" key around it. cloud-init falls back or
// leaves the machine without a network on anything else.
func checkNetwork(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	d, err := parse(FieldNetworkConfig, data)
	if err != nil {
		return err
	}
	config := d.root
	if config != nil && config.Kind == yaml.MappingNode {
		if i := d.index("network"); i >= 0 {
			config = target(config.Content[i+1])
		}
	}
	if config == nil || config.Kind != yaml.MappingNode {
		return d.fault(1, "a network-config must be a mapping with \"version: 1\" or \"version: 2\": correct it, or leave networkConfig out")
	}
	return d.checkVersion(config)
}

func (d *document) checkVersion(config *yaml.Node) error {
	get := func(key string) *yaml.Node { budget := maxMerged; return merged(config, key, &budget) }
	version := get("version")
	switch {
	case version == nil:
		return d.fault(config.Line, "a network-config needs \"version: 1\" or \"version: 2\": add it")
	case pyTag(version) != tagInt || (version.Value != "1" && version.Value != "2"):
		return d.fault(version.Line, "the version of a network-config must be the number 1 or 2: correct it")
	case version.Value == "1":
		if list := get("config"); list == nil || list.Kind != yaml.SequenceNode {
			return d.fault(config.Line, "a network-config of version 1 needs a list \"config\": add it")
		}
	}
	return nil
}
