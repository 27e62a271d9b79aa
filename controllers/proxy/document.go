package proxy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxyard/proxyard/apis/v1alpha1"
	"github.com/proxyard/proxyard/pkg/cloudinit"
	"github.com/proxyard/proxyard/pkg/squidconf"
	"github.com/proxyard/proxyard/pkg/steps"
)

// document prepares the cloud-init documents before anything is reserved for a Proxy that could never boot. For a machine
// that was made already they are prepared when it must be made or started again.
func (r *Reconciler) document(ctx context.Context, s *scope) steps.Result {
	if s.providerID != "" {
		return steps.Done()
	}
	return r.prepare(ctx, s)
}

func (r *Reconciler) prepare(ctx context.Context, s *scope) steps.Result {
	if s.documents != nil {
		return steps.Done()
	}
	spec := &s.proxy.Spec
	userData, result := r.userData(ctx, s)
	if result.Verdict != steps.VerdictDone {
		return result
	}
	if len(userData) == 0 {
		return steps.Stalled(v1alpha1.ReasonUserDataInvalid, "userDataFrom names a key that is empty: fill it, or leave userDataFrom out and set access", pollReference)
	}
	docs, err := cloudinit.Prepare(cloudinit.Documents{
		UserData: userData, VendorData: bytesOf(spec.VendorData), NetworkConfig: bytesOf(spec.NetworkConfig),
	}, cloudinit.AgentMode(spec.GuestAgent))
	if err != nil {
		return steps.Stalled(documentReason(err), err.Error(), recheckDocument(spec))
	}
	s.documents = &docs
	return steps.Done()
}

// recheckDocument: a document from a Secret or ConfigMap may be mended there.
func recheckDocument(spec *v1alpha1.ProxySpec) time.Duration {
	if spec.UserDataFrom != nil {
		return pollReference
	}
	return 0
}

func documentReason(err error) string {
	var e *cloudinit.Error
	if errors.As(err, &e) {
		switch e.Field {
		case cloudinit.FieldVendorData:
			return v1alpha1.ReasonVendorDataInvalid
		case cloudinit.FieldNetworkConfig:
			return v1alpha1.ReasonNetworkConfigInvalid
		}
	}
	return v1alpha1.ReasonUserDataInvalid
}

// userData is the user's own document, or else a rendered squid.
func (r *Reconciler) userData(ctx context.Context, s *scope) ([]byte, steps.Result) {
	spec := &s.proxy.Spec
	switch from := spec.UserDataFrom; {
	case spec.UserData != nil:
		return []byte(*spec.UserData), steps.Done()
	case from != nil && from.SecretKeyRef != nil:
		return r.secretKey(ctx, s, from.SecretKeyRef.Name, from.SecretKeyRef.Key)
	case from != nil && from.ConfigMapKeyRef != nil:
		return r.configMapKey(ctx, s, from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key)
	default:
		return r.renderSquid(ctx, s)
	}
}

func (r *Reconciler) renderSquid(ctx context.Context, s *scope) ([]byte, steps.Result) {
	spec := &s.proxy.Spec
	config := squidconf.Config{Hostname: hostname(s.proxy.Name), Port: int(spec.Port), ExtraTargets: r.probeTargets(spec)}
	recheck := time.Duration(0)
	if spec.Access != nil {
		for _, c := range spec.Access.AllowedClients {
			prefix, err := netip.ParsePrefix(c)
			if err != nil {
				return nil, steps.Stalled(v1alpha1.ReasonAccessInvalid, fmt.Sprintf("access.allowedClients: %q is no network such as 10.0.0.0/8", c), 0)
			}
			config.AllowedClients = append(config.AllowedClients, prefix)
		}
		user, result := r.login(ctx, s)
		if result.Verdict != steps.VerdictDone {
			return nil, result
		}
		if user != nil {
			config.User = &squidconf.User{Name: user.name, Password: user.password}
			recheck = pollReference
		}
	}
	// The salt must be the same at every call: another document would be another machine.
	salt := sha256.Sum256([]byte("squid password salt of " + s.uid()))
	out, err := squidconf.CloudConfig(config, salt[:])
	if err != nil {
		return nil, steps.Stalled(v1alpha1.ReasonAccessInvalid, err.Error(), recheck)
	}
	return out, steps.Done()
}

// probeTargets are what the rendered squid must serve so that the probe is not refused by it, wherever its target lives.
// Loopback and link-local stay refused.
func (r *Reconciler) probeTargets(spec *v1alpha1.ProxySpec) []string {
	u, err := url.Parse(cmp.Or(spec.Health.URL, r.ProbeURL))
	if err != nil || u.Hostname() == "" {
		return nil
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && (ip.IsLoopback() || ip.IsLinkLocalUnicast()) {
		return nil
	}
	port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	return []string{net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))}
}

// login is the user of spec.access.credentialsRef; nil when there is none.
func (r *Reconciler) login(ctx context.Context, s *scope) (*login, steps.Result) {
	access := s.proxy.Spec.Access
	if access == nil || access.CredentialsRef == nil {
		return nil, steps.Done()
	}
	// One read for both: a rotation between two would pair the old name with the new password for the life of the machine.
	values, result := r.secretKeys(ctx, s, access.CredentialsRef.Name, v1alpha1.SecretKeyUsername, v1alpha1.SecretKeyPassword)
	if result.Verdict != steps.VerdictDone {
		return nil, result
	}
	return &login{name: string(values[0]), password: string(values[1])}, steps.Done()
}

func (r *Reconciler) secretKey(ctx context.Context, s *scope, name, key string) ([]byte, steps.Result) {
	values, result := r.secretKeys(ctx, s, name, key)
	if result.Verdict != steps.VerdictDone {
		return nil, result
	}
	return values[0], result
}

// secretKeys reads keys of one Secret, all of them or none.
func (r *Reconciler) secretKeys(ctx context.Context, s *scope, name string, keys ...string) ([][]byte, steps.Result) {
	var secret corev1.Secret
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.proxy.Namespace, Name: name}, &secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, steps.Failed(fmt.Errorf("read secret %q: %w", name, err))
	}
	values := make([][]byte, 0, len(keys))
	for _, key := range keys {
		data, ok := secret.Data[key]
		if !ok || err != nil {
			return nil, missing(v1alpha1.ReasonSecretNotFound, "secret", s.proxy.Namespace, name, key, err)
		}
		values = append(values, data)
	}
	return values, steps.Done()
}

func (r *Reconciler) configMapKey(ctx context.Context, s *scope, name, key string) ([]byte, steps.Result) {
	var cm corev1.ConfigMap
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.proxy.Namespace, Name: name}, &cm)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, steps.Failed(fmt.Errorf("read configmap %q: %w", name, err))
	}
	if text, ok := cm.Data[key]; ok {
		return []byte(text), steps.Done()
	}
	if data, ok := cm.BinaryData[key]; ok {
		return data, steps.Done()
	}
	return nil, missing(v1alpha1.ReasonConfigMapNotFound, "configmap", s.proxy.Namespace, name, key, err)
}

// missing waits for an object, or for a key in it, to appear.
func missing(reason, kind, namespace, name, key string, notFound error) steps.Result {
	if notFound != nil {
		return steps.Wait(reason, fmt.Sprintf("%s %q does not exist in namespace %q", kind, name, namespace), pollReference)
	}
	return steps.Wait(reason, fmt.Sprintf("%s %q in namespace %q has no key %q", kind, name, namespace, key), pollReference)
}

func bytesOf(s *string) []byte {
	if s == nil {
		return nil
	}
	return []byte(*s)
}
