// Copyright The Interlock Authors.
// SPDX-License-Identifier: Apache-2.0

// Command interlock is the operator: it watches AgentRuns and bindings and advances the runs. It is the one place that
// names concrete adapters for models and tools.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/interlock-dev/interlock/api/v1alpha1"
	"github.com/interlock-dev/interlock/config/admission"
	"github.com/interlock-dev/interlock/internal/controller"
	"github.com/interlock-dev/interlock/internal/journal"
	"github.com/interlock-dev/interlock/internal/model/openai"
	"github.com/interlock-dev/interlock/internal/model/scripted"
	"github.com/interlock-dev/interlock/internal/tool/httptool"
	"github.com/interlock-dev/interlock/internal/tool/mcptool"
)

// The metrics endpoint asks the API server who calls and whether they may.
//
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

type options struct {
	metricsAddress, probeAddress string
	leaderElect                  bool
	leaderElectionNamespace      string
	workers, maxEffects          int
	journalMemory                int
	logging                      zap.Options
}

func main() {
	o := parse(os.Args[1:])
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.logging)))
	if err := start(ctrl.SetupSignalHandler(), o); err != nil {
		ctrl.Log.Error(err, "interlock ends")
		os.Exit(1)
	}
}

func parse(args []string) options {
	var o options
	flags := flag.CommandLine
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", "Address of the metrics endpoint, over TLS and with authentication. 0 switches it off.")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "Address of /healthz and /readyz. 0 switches it off.")
	flags.BoolVar(&o.leaderElect, "leader-elect", false, "Take part in a leader election, so that of several replicas one is at work.")
	flags.StringVar(&o.leaderElectionNamespace, "leader-election-namespace", "", "Namespace of the lease. Left out, it is the one that the operator runs in.")
	flags.IntVar(&o.workers, "workers", 8, "How many runs are looked at side by side.")
	flags.IntVar(&o.maxEffects, "max-effects", 1000, "How many calls to models and tools are under way at once, over all runs.")
	flags.IntVar(&o.journalMemory, "journal-memory-mib", 128, "How much memory holds the histories of runs under way, in MiB. What does not fit is read again.")
	o.logging.BindFlags(flags)
	if err := flags.Parse(args); err != nil {
		os.Exit(2)
	}
	if o.workers < 1 || o.maxEffects < 1 || o.journalMemory < 1 {
		fmt.Fprintln(os.Stderr, "--workers, --max-effects and --journal-memory-mib must be at least 1")
		os.Exit(2)
	}
	return o
}

func start(ctx context.Context, o options) error {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding a cluster: %w", err)
	}
	// The API server guards itself, with Priority and Fairness; a limit of our own would only hide its answer.
	config.QPS = -1
	config.UserAgent = "interlock"

	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		HealthProbeBindAddress:        o.probeAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "interlock.interlock.dev",
		LeaderElectionNamespace:       o.leaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
		Metrics: metricsserver.Options{
			BindAddress: o.metricsAddress, SecureServing: true, FilterProvider: filters.WithAuthenticationAndAuthorization,
		},
		Cache: cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Client: client.Options{Cache: &client.CacheOptions{
			// A pass must see what the pass before it wrote.
			EnableReadYourWritesConsistency: new(true),
			// These are read by name, rarely, and can be large or secret: the operator neither lists nor watches them.
			DisableFor: []client.Object{&v1alpha1.Turn{}, &corev1.Secret{}, &corev1.ConfigMap{}},
		}},
	})
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	if err := setup(ctx, manager, o); err != nil {
		return err
	}
	return manager.Start(ctx)
}

func setup(ctx context.Context, manager ctrl.Manager, o options) error {
	tools := controller.NewTools(httptool.New, mcptool.New)
	models := controller.NewModels(openai.New, scripted.New, manager.GetAPIReader())
	recorder := manager.GetEventRecorder("interlock")

	direct, err := client.New(manager.GetConfig(), client.Options{
		Scheme: manager.GetScheme(), HTTPClient: manager.GetHTTPClient(), Mapper: manager.GetRESTMapper(),
	})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	policies, err := admissionOf(ctx, manager, direct)
	if err != nil {
		return err
	}
	breakers := controller.NewBreakerGauge()
	if err := errors.Join(metrics.Registry.Register(controller.AdmissionGauge(ctx, policies)), metrics.Registry.Register(breakers)); err != nil {
		return fmt.Errorf("registering a metric: %w", err)
	}
	refusals := controller.NewRefusalCounter()
	if err := metrics.Registry.Register(refusals); err != nil {
		return fmt.Errorf("registering a metric: %w", err)
	}
	if err := controller.AddIndexes(ctx, manager.GetFieldIndexer()); err != nil {
		return err
	}
	store := journal.New(controller.NewTurnStore(manager.GetClient(), manager.GetAPIReader()), o.journalMemory<<20)

	runs := new(controller.Waker[controller.RunKey])
	agentRuns := &controller.AgentRunReconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Clock: clock.RealClock{}, Recorder: recorder,
		Journal: store, Tools: tools, Models: models, Principals: controller.NewPrincipals(direct), Admission: policies,
		Effects: controller.NewEffects(o.maxEffects, runs), Wake: runs, Workers: o.workers, Refusals: refusals,
	}
	if err := metrics.Registry.Register(controller.NewQueueGauge(&agentRuns.Queue)); err != nil {
		return fmt.Errorf("registering a metric: %w", err)
	}
	if err := agentRuns.SetupWithManager(manager); err != nil {
		return fmt.Errorf("setting up AgentRuns: %w", err)
	}
	bindings := new(controller.Waker[client.ObjectKey])
	toolBindings := &controller.ToolBindingReconciler{
		Client: manager.GetClient(), Clock: clock.RealClock{}, Recorder: recorder, Tools: tools, Breakers: breakers, Admission: policies,
		Discoveries: controller.NewDiscoveries(o.maxEffects, bindings), Wake: bindings,
	}
	if err := toolBindings.SetupWithManager(manager); err != nil {
		return fmt.Errorf("setting up ToolBindings: %w", err)
	}
	approvals := &controller.ApprovalReconciler{
		Client: manager.GetClient(), Clock: clock.RealClock{}, Recorder: recorder, Journal: store, Admission: policies,
	}
	if err := approvals.SetupWithManager(manager); err != nil {
		return fmt.Errorf("setting up Approvals: %w", err)
	}
	modelBindings := &controller.ModelBindingReconciler{Client: manager.GetClient(), Recorder: recorder, Clock: clock.RealClock{}, Models: models, Breakers: breakers}
	if err := modelBindings.SetupWithManager(manager); err != nil {
		return fmt.Errorf("setting up ModelBindings: %w", err)
	}
	runPolicies := &controller.RunPolicyReconciler{Client: manager.GetClient(), Recorder: recorder}
	if err := runPolicies.SetupWithManager(manager); err != nil {
		return fmt.Errorf("setting up RunPolicies: %w", err)
	}
	if err := manager.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding a health check: %w", err)
	}
	if err := manager.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding a readiness check: %w", err)
	}
	return nil
}

// admissionOf finds out who we are and what the API server serves, so that the policies in the cluster can be held against
// those that were shipped.
func admissionOf(ctx context.Context, manager ctrl.Manager, direct client.Client) (controller.Admission, error) {
	shipped, err := admission.Objects()
	if err != nil {
		return nil, err
	}
	self := &authenticationv1.SelfSubjectReview{}
	if err := direct.Create(ctx, self); err != nil {
		return nil, fmt.Errorf("asking the API server who we are: %w", err)
	}
	return controller.NewAdmission(manager.GetCache(), manager.GetAPIReader(), manager.GetRESTMapper(), self.Status.UserInfo.Username, clock.RealClock{}, shipped)
}
