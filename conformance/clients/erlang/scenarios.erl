%% Common and unusual scenarios for RabbitMQ's own Erlang client, mostly from its system tests.
%% Prints one line per scenario: "ok name" or "FAILED name: why".
-module(scenarios).
-export([main/1]).
-include_lib("amqp_client/include/amqp_client.hrl").

-define(WITHIN_MS, 30000).

main([Url]) ->
    logger:set_primary_config(level, none),
    {ok, _} = application:ensure_all_started(amqp_client),
    %% For this client, a path that is just a slash means a virtual host with an empty name.
    {ok, Parameters} = amqp_uri:parse(string:trim(Url, trailing, "/")),
    Outcomes = [played(Name, Play, Parameters) || {Name, Play} <- scenarios()],
    halt(case lists:all(fun(Each) -> Each end, Outcomes) of true -> 0; false -> 1 end).

scenarios() ->
    [{"what is recovered comes again", fun recovered/1},
     {"a hundred consumers on one channel each get a message", fun hundred_consumers/1},
     {"a consumer is told that its queue is gone", fun told/1},
     {"a megabyte comes back as it was", fun large/1},
     {"a hundred queues are made, bound and deleted at once", fun queues_at_once/1},
     {"an exchange is declared without an answer", fun declared_without_answer/1},
     {"channels are opened and closed at once", fun channels_at_once/1},
     {"a channel of ten is the last one that was agreed on", fun few_channels/1},
     {"publishes in front of a binding are not routed by it", fun publishes_then_binding/1},
     {"a publish behind two thousand bindings is routed by all", fun bindings_then_publish/1},
     {"calls by reply-to", fun calls/1},
     {"what was published before a close is there", fun published_then_closed/1},
     {"a barrier of a thousand confirms", fun barrier/1},
     {"consume, cancel and consume without answers", fun without_answers/1},
     {"an unknown exchange closes that channel only", fun unknown_exchange/1},
     {"a close that crosses the broker's leaves the number free", fun crossing_closes/1},
     {"a hundred channels that fail leave their connections", fun failing_channels/1},
     {"an error of the connection reaches each channel", fun hard_error/1},
     {"logins and virtual hosts that are refused", fun refused/1},
     {"a method of a channel on channel 0", fun method_on_channel_0/1}].

played(Name, Play, Parameters) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() -> Play(Parameters), Self ! {self(), passed} end),
    Why = receive
        {Pid, passed} -> none;
        {'DOWN', Monitor, process, Pid, Reason} -> Reason
    after 4 * ?WITHIN_MS ->
        exit(Pid, kill),
        too_late
    end,
    demonitor(Monitor, [flush]),
    case Why of
        none -> io:format("ok ~s~n", [Name]);
        _ -> io:format("FAILED ~s: ~0p~n", [Name, Why])
    end,
    Why =:= none.

recovered(Parameters) ->
    {Connection, Channel} = opened(Parameters),
    Queue = queue(Channel),
    Tag = consuming(Channel, Queue),
    publish(Channel, Queue, <<"again">>),
    receive {#'basic.deliver'{consumer_tag = Tag, redelivered = false}, _} -> ok
    after ?WITHIN_MS -> error(no_delivery) end,
    amqp_channel:cast(Channel, #'basic.recover'{requeue = true}),
    receive
        {#'basic.deliver'{consumer_tag = Tag, redelivered = true, delivery_tag = Delivery}, _} ->
            amqp_channel:cast(Channel, #'basic.ack'{delivery_tag = Delivery})
    after ?WITHIN_MS -> error(not_again) end,
    closed(Connection, Channel).

hundred_consumers(Parameters) ->
    {Connection, Channel} = opened(Parameters),
    Exchange = fresh(),
    #'exchange.declare_ok'{} = amqp_channel:call(Channel, #'exchange.declare'{exchange = Exchange}),
    Consume = fun(_) ->
        Queue = queue(Channel),
        bind(Channel, Queue, Exchange, <<"key">>),
        Tag = consuming(Channel, Queue),
        fun() ->
            receive {#'basic.deliver'{consumer_tag = Tag}, _} -> ok
            after ?WITHIN_MS -> error(no_delivery) end,
            #'basic.cancel_ok'{} = amqp_channel:call(Channel, #'basic.cancel'{consumer_tag = Tag})
        end
    end,
    Ends = [Consume(N) || N <- lists:seq(1, 100)],
    amqp_channel:call(Channel, #'basic.publish'{exchange = Exchange, routing_key = <<"key">>},
                      #amqp_msg{payload = <<"each">>}),
    [End() || End <- Ends],
    amqp_channel:call(Channel, #'exchange.delete'{exchange = Exchange}),
    closed(Connection, Channel).

told(Parameters) ->
    {Connection, Channel} = opened(Parameters),
    Queue = queue(Channel),
    Tag = consuming(Channel, Queue),
    #'queue.delete_ok'{} = amqp_channel:call(Channel, #'queue.delete'{queue = Queue}),
    receive #'basic.cancel'{consumer_tag = Tag} -> ok
    after ?WITHIN_MS -> error(not_told) end,
    closed(Connection, Channel).

large(Parameters) ->
    {Connection, Channel} = opened(Parameters),
    Queue = queue(Channel),
    Payload = crypto:strong_rand_bytes(1000000),
    publish(Channel, Queue, Payload),
    Payload = taken(Channel, Queue),
    closed(Connection, Channel).

queues_at_once(Parameters) ->
    {Connection, Channel} = opened(Parameters),
    Exchange = fresh(),
    amqp_channel:call(Channel, #'exchange.declare'{exchange = Exchange, type = <<"topic">>}),
    at_once(100, fun(_) ->
        Queue = queue(Channel),
        bind(Channel, Queue, Exchange, <<"a.b.c.*">>),
        #'queue.delete_ok'{} = amqp_channel:call(Channel, #'queue.delete'{queue = Queue})
    end),
    amqp_channel:call(Channel, #'exchange.delete'{exchange = Exchange}),
    closed(Connection, Channel).

declared_without_answer(Parameters) ->
    {Connection, Channel} = opened(Parameters),
    Exchange = fresh(),
    ok = amqp_channel:call(Channel, #'exchange.declare'{exchange = Exchange, nowait = true}),
    Asked = #'exchange.declare'{exchange = Exchange, passive = true},
    #'exchange.declare_ok'{} = amqp_channel:call(Channel, Asked),
    ok = amqp_channel:call(Channel, #'exchange.delete'{exchange = Exchange, nowait = true}),
    closed(Connection, Channel).

channels_at_once(Parameters) ->
    {ok, Connection} = amqp_connection:start(Parameters),
    at_once(50, fun(_) ->
        {ok, Channel} = amqp_connection:open_channel(Connection),
        ok = amqp_channel:close(Channel)
    end),
    ok = amqp_connection:close(Connection).

few_channels(Parameters) ->
    {ok, Connection} = amqp_connection:start(Parameters#amqp_params_network{channel_max = 10}),
    [{ok, _} = amqp_connection:open_channel(Connection) || _ <- lists:seq(1, 10)],
    {error, _} = amqp_connection:open_channel(Connection),
    ok = amqp_connection:close(Connection).

publishes_then_binding(Parameters) ->
    {Connection, Channel} = opened(Parameters),
    Exchange = fresh(),
    amqp_channel:call(Channel, #'exchange.declare'{exchange = Exchange, type = <<"topic">>}),
    Queue = queue(Channel),
    Publish = #'basic.publish'{exchange = Exchange, routing_key = <<"a">>},
    at_once(100, fun(_) ->
        [amqp_channel:call(Channel, Publish, #amqp_msg{payload = <<"early">>})
         || _ <- lists:seq(1, 20)]
    end),
    bind(Channel, Queue, Exchange, <<"a">>),
    0 = count(Channel, Queue),
    amqp_channel:call(Channel, #'exchange.delete'{exchange = Exchange}),
    closed(Connection, Channel).

bindings_then_publish(Parameters) ->
    {Connection, Channel} = opened(Parameters),
    Exchange = fresh(),
    amqp_channel:call(Channel, #'exchange.declare'{exchange = Exchange, type = <<"topic">>}),
    Queues = lists:append(at_once(100, fun(_) ->
        Bound = fun(Queue) ->
            Binding = #'queue.bind'{exchange = Exchange, queue = Queue, routing_key = <<"a">>},
            amqp_channel:cast(Channel, Binding),
            Queue
        end,
        [Bound(queue(Channel)) || _ <- lists:seq(1, 20)]
    end)),
    #'confirm.select_ok'{} = amqp_channel:call(Channel, #'confirm.select'{}),
    amqp_channel:call(Channel, #'basic.publish'{exchange = Exchange, routing_key = <<"a">>},
                      #amqp_msg{payload = <<"all">>}),
    true = amqp_channel:wait_for_confirms(Channel),
    [1 = count(Channel, Queue) || Queue <- Queues],
    amqp_channel:call(Channel, #'exchange.delete'{exchange = Exchange}),
    closed(Connection, Channel).

calls(Parameters) ->
    {ok, Connection} = amqp_connection:start(Parameters),
    Queue = fresh(),
    Server = amqp_rpc_server:start(Connection, Queue, fun(Asked) -> <<"re: ", Asked/binary>> end),
    Client = amqp_rpc_client:start(Connection, Queue),
    at_once(255, fun(N) ->
        Asked = integer_to_binary(N),
        <<"re: ", Asked/binary>> = amqp_rpc_client:call(Client, Asked)
    end),
    amqp_rpc_client:stop(Client),
    amqp_rpc_server:stop(Server),
    {ok, Channel} = amqp_connection:open_channel(Connection),
    amqp_channel:call(Channel, #'queue.delete'{queue = Queue}),
    closed(Connection, Channel).

published_then_closed(Parameters) ->
    {First, Publishing} = opened(Parameters),
    Declare = #'queue.declare'{queue = fresh(), durable = true},
    #'queue.declare_ok'{queue = Queue} = amqp_channel:call(Publishing, Declare),
    [publish(Publishing, Queue, <<"eggs">>) || _ <- lists:seq(1, 20000)],
    ok = amqp_connection:close(First),
    {Second, Channel} = opened(Parameters),
    20000 = count(Channel, Queue),
    #'queue.delete_ok'{} = amqp_channel:call(Channel, #'queue.delete'{queue = Queue}),
    closed(Second, Channel).

barrier(Parameters) ->
    {Connection, Channel} = opened(Parameters),
    #'confirm.select_ok'{} = amqp_channel:call(Channel, #'confirm.select'{}),
    [publish(Channel, <<"no-such-queue">>, <<"lost">>) || _ <- lists:seq(1, 1000)],
    true = amqp_channel:wait_for_confirms(Channel),
    closed(Connection, Channel).

without_answers(Parameters) ->
    {Connection, Channel} = opened(Parameters),
    Queue = queue(Channel),
    publish(Channel, Queue, <<"one">>),
    amqp_selective_consumer:register_default_consumer(Channel, self()),
    Consume = #'basic.consume'{queue = Queue, consumer_tag = <<"tag">>, nowait = true},
    ok = amqp_channel:call(Channel, Consume),
    ok = amqp_channel:call(Channel, #'basic.cancel'{consumer_tag = <<"tag">>, nowait = true}),
    ok = amqp_channel:call(Channel, Consume),
    receive
        #'basic.consume_ok'{} -> error(answered);
        {#'basic.deliver'{}, _} -> ok
    after ?WITHIN_MS -> error(no_delivery) end,
    closed(Connection, Channel).

unknown_exchange(Parameters) ->
    {Connection, Channel} = opened(Parameters),
    {ok, Other} = amqp_connection:open_channel(Connection),
    Monitor = monitor(process, Channel),
    amqp_channel:call(Channel, #'basic.publish'{exchange = fresh()}, #amqp_msg{payload = <<>>}),
    receive
        {'DOWN', Monitor, process, Channel, Why} ->
            {shutdown, {server_initiated_close, 404, _}} = Why
    after ?WITHIN_MS -> error(still_open) end,
    _ = queue(Other),
    closed(Connection, Other).

crossing_closes(Parameters) ->
    {ok, Connection} = amqp_connection:start(Parameters),
    [begin
        {ok, First} = amqp_connection:open_channel(Connection, 77),
        Unknown = #'basic.publish'{exchange = <<"no-such-exchange">>},
        amqp_channel:cast(First, Unknown, #amqp_msg{payload = <<>>}),
        Monitor = monitor(process, First),
        catch amqp_channel:close(First),
        receive {'DOWN', Monitor, process, First, _} -> ok
        after ?WITHIN_MS -> error(still_open) end,
        {ok, Second} = amqp_connection:open_channel(Connection, 77),
        _ = queue(Second),
        ok = amqp_channel:close(Second)
     end || _ <- lists:seq(1, 50)],
    ok = amqp_connection:close(Connection).

failing_channels(Parameters) ->
    Bind = #'queue.bind'{exchange = <<"amq.topic">>, queue = <<"no-such-queue">>},
    at_once(100, fun(_) ->
        {Connection, Channel} = opened(Parameters),
        404 = try amqp_channel:call(Channel, Bind)
              catch exit:{{shutdown, {server_initiated_close, Code, _}}, _} -> Code
              end,
        {ok, _} = amqp_connection:open_channel(Connection),
        ok = amqp_connection:close(Connection)
    end).

hard_error(Parameters) ->
    at_once(20, fun(_) ->
        {Connection, Channel} = opened(Parameters),
        {ok, Other} = amqp_connection:open_channel(Connection),
        Monitor = monitor(process, Other),
        540 = try amqp_channel:call(Channel, #'basic.qos'{prefetch_size = 10000000})
              catch exit:{{shutdown, {connection_closing, {server_initiated_close, Code, _}}}, _} -> Code
              end,
        receive
            {'DOWN', Monitor, process, Other, Why} ->
                {shutdown, {connection_closing, {server_initiated_close, 540, _}}} = Why
        after ?WITHIN_MS -> error(still_open) end
    end).

refused(Parameters) ->
    Start = fun amqp_connection:start/1,
    {error, {auth_failure, _}} = Start(Parameters#amqp_params_network{username = <<"nobody">>}),
    {error, {auth_failure, _}} = Start(Parameters#amqp_params_network{password = <<"wrong">>}),
    {error, not_allowed} = Start(Parameters#amqp_params_network{virtual_host = <<"/none">>}).

method_on_channel_0(Parameters) ->
    {ok, Connection} = amqp_connection:start(Parameters),
    [{sock, Socket}] = amqp_connection:info(Connection, [sock]),
    Monitor = monitor(process, Connection),
    Body = <<60:16, 80:16, 1:64, 0>>,
    ok = gen_tcp:send(Socket, [<<1, 0:16, (byte_size(Body)):32>>, Body, 16#CE]),
    receive
        {'DOWN', Monitor, process, Connection, Why} ->
            {shutdown, {server_initiated_close, 504, _}} = Why
    after ?WITHIN_MS -> error(still_open) end.

opened(Parameters) ->
    {ok, Connection} = amqp_connection:start(Parameters),
    {ok, Channel} = amqp_connection:open_channel(Connection),
    {Connection, Channel}.

closed(Connection, Channel) ->
    ok = amqp_channel:close(Channel),
    ok = amqp_connection:close(Connection).

queue(Channel) ->
    Declare = #'queue.declare'{exclusive = true},
    #'queue.declare_ok'{queue = Queue} = amqp_channel:call(Channel, Declare),
    Queue.

bind(Channel, Queue, Exchange, Key) ->
    Bind = #'queue.bind'{queue = Queue, exchange = Exchange, routing_key = Key},
    #'queue.bind_ok'{} = amqp_channel:call(Channel, Bind).

consuming(Channel, Queue) ->
    Consume = #'basic.consume'{queue = Queue},
    #'basic.consume_ok'{consumer_tag = Tag} = amqp_channel:subscribe(Channel, Consume, self()),
    receive #'basic.consume_ok'{consumer_tag = Tag} -> Tag
    after ?WITHIN_MS -> error(not_consuming) end.

publish(Channel, Queue, Payload) ->
    Publish = #'basic.publish'{routing_key = Queue},
    ok = amqp_channel:call(Channel, Publish, #amqp_msg{payload = Payload}).

taken(Channel, Queue) ->
    Get = #'basic.get'{queue = Queue, no_ack = true},
    {#'basic.get_ok'{}, #amqp_msg{payload = Payload}} = amqp_channel:call(Channel, Get),
    Payload.

count(Channel, Queue) ->
    Declare = #'queue.declare'{queue = Queue, passive = true},
    #'queue.declare_ok'{message_count = Count} = amqp_channel:call(Channel, Declare),
    Count.

%% The results of that many processes, which run concurrently.
at_once(Count, Work) ->
    Workers = [spawn_monitor(fun() -> exit({done, Work(N)}) end) || N <- lists:seq(1, Count)],
    [receive
        {'DOWN', Monitor, process, Worker, {done, Outcome}} -> Outcome;
        {'DOWN', Monitor, process, Worker, Why} -> error(Why)
     after 2 * ?WITHIN_MS -> error(too_late)
     end || {Worker, Monitor} <- Workers].

fresh() ->
    list_to_binary(io_lib:format("erlang-~s-~b", [os:getpid(), erlang:unique_integer([positive])])).
